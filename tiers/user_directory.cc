#include "tiers/user_directory.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "runtime/base/status.h"

namespace strata {
namespace {

/// Others hold the lock while they look around, never while they delete or write.
constexpr auto kLockWait = std::chrono::seconds(10);

std::string ParentOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == 0 || slash == std::string::npos ? "/" : path.substr(0, slash);
}

absl::StatusOr<FileDescriptor> OpenLocked(const std::string& path) {
  FileDescriptor directory(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.is_open()) {
    return IoError(errno, absl::StrCat("cannot open '", path, "'"));
  }
  const auto deadline = std::chrono::steady_clock::now() + kLockWait;
  while (flock(directory.get(), LOCK_EX | LOCK_NB) != 0) {
    const bool waits = errno == EWOULDBLOCK || errno == EINTR;
    if (!waits || std::chrono::steady_clock::now() > deadline) {
      return IoError(errno, absl::StrCat("cannot lock '", path, "'"));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  struct stat info {};
  if (fstat(directory.get(), &info) != 0 || info.st_nlink == 0) {
    return absl::NotFoundError(absl::StrCat("'", path, "' was removed meanwhile"));
  }
  return directory;
}

/// Makes a directory that is missing, and what is missing above it.
absl::Status MakeWithParents(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode)) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("'", path, "' is a file, not a directory"));
  }
  if (errno != ENOENT || path == "/")
    return IoError(errno, absl::StrCat("'", path, "'"));
  if (lstat(path.c_str(), &info) == 0 && S_ISLNK(info.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", path, "' is a link that leads nowhere"));
  }
  const std::string parent = ParentOf(path);
  STRATA_RETURN_IF_ERROR(MakeWithParents(parent));
  // Locked, the parent is not removed for being empty. A parent that we may not lock is
  // not one of ours, and stays anyway.
  const absl::StatusOr<FileDescriptor> locked_parent = OpenLocked(parent);
  if (absl::IsNotFound(locked_parent.status())) return locked_parent.status();
  if (mkdir(path.c_str(), 0777) != 0) {
    if (errno == EEXIST) return absl::OkStatus();  // somebody was faster
    return IoError(errno, absl::StrCat("cannot create '", path, "'"));
  }
  const std::string marker = absl::StrCat(path, "/", kCreatedMarkerName);
  const FileDescriptor file(open(marker.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
  if (!file.is_open())
    return IoError(errno, absl::StrCat("cannot create '", marker, "'"));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<FileDescriptor> OpenUserDirectory(const std::string& path) {
  STRATA_RETURN_IF_ERROR(MakeWithParents(path));
  return OpenLocked(path);
}

void RemoveUserDirectory(const std::string& path,
                         const std::function<bool(absl::string_view)>& is_ours) {
  const std::string marker_path = absl::StrCat(path, "/", kCreatedMarkerName);
  if (access(marker_path.c_str(), F_OK) != 0) return;  // not ours: not even locked
  {
    absl::StatusOr<FileDescriptor> directory = OpenLocked(path);
    if (!directory.ok()) return;
    if (access(marker_path.c_str(), F_OK) != 0) return;
    bool in_use = false;
    ForEachEntry(directory->get(), [&](absl::string_view name) {
      const std::string marker = absl::StrCat(name, "/", kCreatedMarkerName);
      in_use = in_use || is_ours(name) ||
               faccessat(directory->get(), marker.c_str(), F_OK, 0) == 0;
    });
    if (in_use) return;
    unlinkat(directory->get(), kCreatedMarkerName, 0);
    rmdir(path.c_str());  // fails if the user put something there, as it should
  }
  RemoveUserDirectory(ParentOf(path), is_ours);
}

void ForEachEntry(int directory, const std::function<void(absl::string_view)>& visit) {
  const int copy = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (copy < 0) return;
  DIR* stream = fdopendir(copy);  // owns copy
  if (stream == nullptr) {
    close(copy);
    return;
  }
  while (const dirent* entry = readdir(stream)) {
    const absl::string_view name = entry->d_name;
    if (name != "." && name != "..") visit(name);
  }
  closedir(stream);
}

}  // namespace strata
