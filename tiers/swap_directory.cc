#include "tiers/swap_directory.h"

#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>
#include <absl/strings/strip.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "runtime/base/status.h"
#include "tiers/file_descriptor.h"
#include "tiers/user_directory.h"

namespace strata {
namespace {

constexpr absl::string_view kPrefix = "strata-swap-";
constexpr const char* kLockName = "lock";
/// Starts that may find the user's directory removed by a run that just ended.
constexpr int kAttemptsMax = 100;

bool IsRunName(absl::string_view name) {
  if (!absl::ConsumePrefix(&name, kPrefix)) return false;
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(name, '-');
  int64_t number = 0;
  return absl::SimpleAtoi(parts.first, &number) &&
         absl::SimpleAtoi(parts.second, &number);
}

/// Of an open run directory: its files; whatever else is in it stays, and so does it.
void RemoveFiles(int run_directory) {
  unlinkat(run_directory, SwapDirectory::kSwapFileName, 0);
  unlinkat(run_directory, kLockName,
           0);  // last: without it the directory counts as dead
}

struct DeadRun {
  std::string name;
  FileDescriptor directory;
  FileDescriptor lock;  // held: others take the directory for a living run's
};

/// Directories whose lock nobody holds. The caller holds the user directory's lock, so
/// none of them is just being made.
std::vector<DeadRun> ClaimDeadRuns(int user_directory) {
  std::vector<DeadRun> runs;
  ForEachEntry(user_directory, [&](absl::string_view name) {
    if (!IsRunName(name)) return;
    DeadRun run{.name = std::string(name)};
    constexpr int kFlags = O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    run.directory =
        FileDescriptor(openat(user_directory, run.name.c_str(), O_RDONLY | kFlags));
    if (!run.directory.is_open()) return;
    run.lock = FileDescriptor(
        openat(run.directory.get(), kLockName, O_RDWR | O_NOFOLLOW | O_CLOEXEC));
    if (run.lock.is_open()) {
      if (flock(run.lock.get(), LOCK_EX | LOCK_NB) != 0) return;
    } else if (errno != ENOENT) {
      return;
    }
    runs.push_back(std::move(run));
  });
  return runs;
}

absl::StatusOr<std::string> AbsolutePath(const std::string& path,
                                         absl::string_view context) {
  std::error_code error;
  std::filesystem::path absolute = std::filesystem::absolute(path, error);
  if (error) return IoError(error.value(), context);
  absolute = absolute.lexically_normal();
  if (!absolute.has_filename()) absolute = absolute.parent_path();  // "dir/" is "dir"
  return absolute.string();
}

}  // namespace

absl::StatusOr<std::unique_ptr<SwapDirectory>> SwapDirectory::Create(
    const std::string& nvme_path) {
  const std::string context = absl::StrCat("nvme_path '", nvme_path, "'");
  if (nvme_path.empty()) return absl::InvalidArgumentError("nvme_path is empty");
  STRATA_ASSIGN_OR_RETURN(const std::string absolute, AbsolutePath(nvme_path, context));

  auto result = std::unique_ptr<SwapDirectory>(new SwapDirectory);
  result->owner_ = getpid();
  result->user_path_ = absolute;
  for (int attempt = 0;; ++attempt) {
    absl::Status status;
    if (auto user_directory = OpenUserDirectory(result->user_path_);
        user_directory.ok()) {
      std::vector<DeadRun> dead = ClaimDeadRuns(user_directory->get());
      status = result->CreateIn(user_directory->get());
      *user_directory = FileDescriptor();  // removing may take long: let the others in
      for (const DeadRun& run : dead) {
        RemoveFiles(run.directory.get());
        const std::string path = absl::StrCat(result->user_path_, "/", run.name);
        if (rmdir(path.c_str()) == 0) result->removed_paths_.push_back(path);
      }
    } else {
      status = user_directory.status();
    }
    if (status.ok()) return result;
    if (!absl::IsNotFound(status) || attempt >= kAttemptsMax) {
      return Annotate(status, context);
    }
  }
}

absl::Status SwapDirectory::CreateIn(int user_directory) {
  std::string name;
  for (int number = 0;; ++number) {
    name = absl::StrCat(kPrefix, getpid(), "-", number);
    if (mkdirat(user_directory, name.c_str(), 0700) == 0) break;
    if (errno != EEXIST) {
      return IoError(errno, absl::StrCat("cannot create a directory in ", user_path_));
    }
  }
  path_ = absl::StrCat(user_path_, "/", name);
  const std::string lock_path = absl::StrCat(path_, "/", kLockName);
  lock_ = open(lock_path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (lock_ < 0) return IoError(errno, absl::StrCat("cannot create '", lock_path, "'"));
  if (flock(lock_, LOCK_EX | LOCK_NB) != 0) {
    return IoError(errno, absl::StrCat("cannot lock '", lock_path, "'"));
  }
  return absl::OkStatus();
}

void SwapDirectory::RemoveOwn(const std::string& nvme_path) {
  const absl::StatusOr<std::string> path = AbsolutePath(nvme_path, "");
  if (!path.ok()) return;
  const FileDescriptor user_directory(
      open(path->c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!user_directory.is_open()) return;
  const std::string own = absl::StrCat(kPrefix, getpid(), "-");
  ForEachEntry(user_directory.get(), [&](absl::string_view name) {
    if (!IsRunName(name) || !absl::StartsWith(name, own)) return;
    const std::string run = absl::StrCat(*path, "/", name);
    const FileDescriptor directory(
        open(run.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!directory.is_open()) return;
    RemoveFiles(directory.get());
    rmdir(run.c_str());
  });
  RemoveUserDirectory(*path, IsRunName);
}

SwapDirectory::~SwapDirectory() {
  if (owner_ == getpid()) {
    if (!path_.empty()) {
      const FileDescriptor directory(
          open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
      if (directory.is_open()) RemoveFiles(directory.get());
      if (rmdir(path_.c_str()) != 0 && errno != ENOENT) {
        std::fprintf(stderr, "warning: cannot remove '%s': %s\n", path_.c_str(),
                     std::strerror(errno));
      }
    }
    RemoveUserDirectory(user_path_, IsRunName);
  }
  if (lock_ >= 0) close(lock_);
}

}  // namespace strata
