/// A SwapDirectory is a run's own directory inside one that the user named: nobody else
/// uses it while the run lives, and nothing of it remains after. A run that was killed
/// cannot clean up; the next start in the same place does it instead.
///
/// Inside the user's directory, which is created if it is missing:
///   strata-swap-PID-N/       this run's
///     lock                   locked (flock) while the run lives
///     swap                   the file of the store
///   .strata-created          says that we made the user's directory, and so remove it
/// Everything else there is the user's and is neither read nor touched.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <string>
#include <vector>

namespace strata {

/// Not thread-safe. A fork's child may destroy its copy: only the maker removes files.
class SwapDirectory {
 public:
  static constexpr const char* kSwapFileName = "swap";

  /// Errors name `nvme_path` and the reason: it is a file, is read-only, is locked by
  /// somebody else, ...
  static absl::StatusOr<std::unique_ptr<SwapDirectory>> Create(
      const std::string& nvme_path);

  /// Removes what this process has in `nvme_path` although it may be in use: for an
  /// exit that waits for nothing. The files' memory goes with the process.
  static void RemoveOwn(const std::string& nvme_path);

  /// Removes the directory, the swap file in it, and `nvme_path` if we made that and
  /// nothing else is in it.
  ~SwapDirectory();
  SwapDirectory(const SwapDirectory&) = delete;
  SwapDirectory& operator=(const SwapDirectory&) = delete;

  const std::string& path() const { return path_; }
  /// Directories of dead runs that Create() found and removed.
  const std::vector<std::string>& removed_paths() const { return removed_paths_; }

 private:
  SwapDirectory() = default;
  absl::Status CreateIn(int user_directory);

  std::string user_path_;
  std::string path_;
  int lock_ = -1;  // descriptor
  int owner_ = 0;  // process id
  std::vector<std::string> removed_paths_;
};

}  // namespace strata
