#include "model/text_file.h"

#include <absl/cleanup/cleanup.h>
#include <absl/strings/str_cat.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>

#include "runtime/base/status.h"

namespace strata {

absl::StatusOr<std::string> ReadTextFile(absl::string_view path) {
  const std::string name(path);
  const int descriptor = open(name.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return IoError(errno, absl::StrCat("open ", path));
  const absl::Cleanup close_file = [descriptor] { close(descriptor); };
  std::string text;
  std::array<char, 1 << 16> buffer;
  for (;;) {
    const ssize_t count = read(descriptor, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return IoError(errno, absl::StrCat("read ", path));
    if (count == 0) return text;
    text.append(buffer.data(), static_cast<size_t>(count));
  }
}

absl::Status WriteTextFile(absl::string_view path, absl::string_view text) {
  const std::string name(path), temporary = absl::StrCat(path, ".partial");
  const int descriptor =
      open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor < 0) return IoError(errno, absl::StrCat("create ", temporary));
  absl::Cleanup remove_file = [&temporary] { unlink(temporary.c_str()); };
  absl::Cleanup close_file = [descriptor] { close(descriptor); };
  while (!text.empty()) {
    const ssize_t count = write(descriptor, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return IoError(errno, absl::StrCat("write ", temporary));
    text.remove_prefix(static_cast<size_t>(count));
  }
  if (fsync(descriptor) != 0) return IoError(errno, absl::StrCat("flush ", temporary));
  std::move(close_file).Cancel();
  if (close(descriptor) != 0) return IoError(errno, absl::StrCat("close ", temporary));
  if (rename(temporary.c_str(), name.c_str()) != 0) {
    return IoError(errno, absl::StrCat("rename ", temporary, " to ", path));
  }
  std::move(remove_file).Cancel();
  return absl::OkStatus();
}

}  // namespace strata
