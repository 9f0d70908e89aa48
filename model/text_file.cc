#include "model/text_file.h"

#include <absl/cleanup/cleanup.h>
#include <absl/strings/str_cat.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

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

}  // namespace strata
