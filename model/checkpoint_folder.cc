#include "model/checkpoint_folder.h"

#include <absl/cleanup/cleanup.h>
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>

#include "model/checkpoint_state.h"
#include "model/text_file.h"
#include "runtime/base/status.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

constexpr absl::string_view kName = "checkpoint-";
/// Names of what is being written, and of what is being removed. Readers of
/// checkpoint-N do not see them.
constexpr absl::string_view kTemporary = ".strata-checkpoint-";
constexpr int64_t kManifestBytes = 64 * kKiB;  // for the check of room only

bool IsNumber(absl::string_view text) {
  return !text.empty() && text.size() <= 18 &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return c >= '0' && c <= '9'; });
}

/// N of "<prefix>N", or -1.
int64_t NumberOf(absl::string_view name, absl::string_view prefix) {
  if (!absl::StartsWith(name, prefix)) return -1;
  name.remove_prefix(prefix.size());
  return IsNumber(name) ? std::stoll(std::string(name)) : -1;
}

std::vector<std::string> NamesIn(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (auto entry = fs::directory_iterator(directory, error);
       !error && entry != fs::directory_iterator(); entry.increment(error)) {
    if (entry->is_directory(error)) names.push_back(entry->path().filename());
  }
  return names;
}

/// Of a file or a directory.
absl::Status Flush(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return IoError(errno, absl::StrCat("open ", path));
  const absl::Cleanup close_descriptor = [descriptor] { close(descriptor); };
  if (fsync(descriptor) == 0) return absl::OkStatus();
  return IoError(errno, absl::StrCat("flush ", path));
}

absl::Status RemoveTree(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  return error ? IoError(error.value(), absl::StrCat("remove ", path))
               : absl::OkStatus();
}

int64_t FreeBytes(const std::string& directory) {
  struct statvfs drive {};
  if (statvfs(directory.c_str(), &drive) != 0) return INT64_MAX;
  return static_cast<int64_t>(drive.f_bavail) * static_cast<int64_t>(drive.f_frsize);
}

int64_t NowMilliseconds() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// Makes durable what write_extras left beside the files that are known already.
absl::Status DescribeExtras(const std::string& directory,
                            std::vector<CheckpointFile>& files) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename();
    const bool known = std::any_of(files.begin(), files.end(),
                                   [&](const auto& file) { return file.name == name; });
    if (!known) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    STRATA_RETURN_IF_ERROR(Flush(absl::StrCat(directory, "/", name)));
    STRATA_ASSIGN_OR_RETURN(CheckpointFile file, DescribeFile(directory, name));
    files.push_back(std::move(file));
  }
  return absl::OkStatus();
}

struct Candidate {
  std::string path;
  int64_t saved = 0, step = 0;
  std::string run_id;
  absl::Status status;  // of reading the manifest
};

/// The one that was saved last comes first; those without a manifest before it.
std::vector<Candidate> CandidatesIn(const std::string& directory) {
  std::vector<Candidate> candidates;
  for (const std::string& path : ListCheckpoints(directory)) {
    const absl::StatusOr<CheckpointManifest> manifest = ReadManifest(path);
    if (!manifest.ok()) {
      candidates.push_back({path, INT64_MAX, 0, "", manifest.status()});
      continue;
    }
    candidates.push_back({path, manifest->saved_unix_milliseconds, manifest->run.step,
                          manifest->run.run_id, absl::OkStatus()});
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) {
                     return std::pair(a.saved, a.step) > std::pair(b.saved, b.step);
                   });
  return candidates;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CheckpointFolder>> CheckpointFolder::Open(
    const std::string& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) return IoError(error.value(), absl::StrCat("create ", directory));
  const int lock = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock < 0) return IoError(errno, absl::StrCat("open ", directory));
  std::unique_ptr<CheckpointFolder> folder(new CheckpointFolder(directory, lock));
  // Where the filesystem cannot lock, left-overs may be somebody's who is at work.
  const bool is_locked = flock(lock, LOCK_EX | LOCK_NB) == 0;
  if (!is_locked && errno == EWOULDBLOCK) {
    return WithMend(absl::FailedPreconditionError(absl::StrCat(
                        directory, ": another process saves its checkpoints there")),
                    "choose another directory, or end the other run first");
  }
  if (is_locked) folder->RemoveStale();
  return folder;
}

CheckpointFolder::~CheckpointFolder() { close(lock_); }

void CheckpointFolder::RemoveStale() {
  for (const std::string& name : NamesIn(directory_)) {
    if (NumberOf(name, kTemporary) < 0) continue;
    const std::string path = absl::StrCat(directory_, "/", name);
    if (RemoveTree(path).ok()) removed_.push_back(path);
  }
}

absl::StatusOr<std::string> CheckpointFolder::Save(Trainer& trainer,
                                                   const SaveRequest& request) {
  const std::string path = absl::StrCat(directory_, "/", kName, request.run.step);
  const std::string temporary =
      absl::StrCat(directory_, "/", kTemporary, request.run.step);
  absl::Cleanup remove = [&] { RemoveTree(temporary).IgnoreError(); };
  absl::Status status = Write(trainer, request, temporary);
  if (status.ok()) status = Publish(temporary, path);
  if (absl::IsResourceExhausted(status)) {
    const int64_t needed = TensorBytes(trainer.model()) + kManifestBytes;
    std::move(remove).Invoke();
    return WithMend(
        Annotate(status, absl::StrCat("save ", path, " (", needed, " bytes needed, ",
                                      FreeBytes(directory_), " free)")),
        "free space there; the checkpoints before it are complete: "
        "--resume_from_checkpoint latest");
  }
  if (!status.ok()) return Annotate(status, absl::StrCat("save ", path));
  STRATA_RETURN_IF_ERROR(RemoveOldest(request, path));
  return path;
}

absl::Status CheckpointFolder::Write(Trainer& trainer, const SaveRequest& request,
                                     const std::string& temporary) {
  STRATA_RETURN_IF_ERROR(trainer.Settle());
  STRATA_RETURN_IF_ERROR(RemoveTree(temporary));
  const int64_t needed = TensorBytes(trainer.model()) + kManifestBytes;
  if (FreeBytes(directory_) < needed) {
    return absl::ResourceExhaustedError(
        "the filesystem has too little room; nothing was written");
  }
  if (mkdir(temporary.c_str(), 0777) != 0) {
    return IoError(errno, absl::StrCat("create ", temporary));
  }
  CheckpointManifest manifest{.run = request.run,
                              .trainer = trainer.progress(),
                              .numerics = trainer.numerics()};
  STRATA_ASSIGN_OR_RETURN(manifest.files, SaveTensors(trainer, temporary));
  if (request.write_extras) STRATA_RETURN_IF_ERROR(request.write_extras(temporary));
  STRATA_RETURN_IF_ERROR(DescribeExtras(temporary, manifest.files));
  manifest.saved_unix_milliseconds = NowMilliseconds();
  STRATA_RETURN_IF_ERROR(WriteTextFile(absl::StrCat(temporary, "/", kManifestName),
                                       FormatManifest(manifest)));
  return Flush(temporary);
}

absl::Status CheckpointFolder::Publish(const std::string& temporary,
                                       const std::string& path) {
  if (rename(temporary.c_str(), path.c_str()) != 0) {
    if (errno != EEXIST && errno != ENOTEMPTY) {
      return IoError(errno, absl::StrCat("rename ", temporary, " to ", path));
    }
    // At each instant one of the two is there under the name.
    if (renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, path.c_str(),
                  RENAME_EXCHANGE) != 0) {
      return IoError(errno, absl::StrCat("exchange ", temporary, " and ", path));
    }
    STRATA_RETURN_IF_ERROR(RemoveTree(temporary));
  }
  return Flush(directory_);
}

absl::Status CheckpointFolder::RemoveOldest(const SaveRequest& request,
                                            const std::string& newest) {
  if (!request.keep_max) return absl::OkStatus();
  int64_t kept = 1;
  for (const Candidate& candidate : CandidatesIn(directory_)) {
    if (candidate.path == newest || !candidate.status.ok() ||
        candidate.run_id != request.run.run_id || ++kept <= *request.keep_max) {
      continue;
    }
    // Half a removed checkpoint must not look like one.
    const std::string doomed =
        absl::StrCat(directory_, "/", kTemporary, candidate.step);
    if (rename(candidate.path.c_str(), doomed.c_str()) != 0) {
      return IoError(errno, absl::StrCat("rename ", candidate.path, " to ", doomed));
    }
    STRATA_RETURN_IF_ERROR(RemoveTree(doomed));
  }
  return absl::OkStatus();
}

std::vector<std::string> ListCheckpoints(const std::string& directory) {
  std::vector<std::pair<int64_t, std::string>> found;
  for (const std::string& name : NamesIn(directory)) {
    const int64_t number = NumberOf(name, kName);
    if (number >= 0) found.push_back({number, absl::StrCat(directory, "/", name)});
  }
  std::sort(found.begin(), found.end());
  std::vector<std::string> paths;
  for (auto& [number, path] : found) paths.push_back(std::move(path));
  return paths;
}

absl::StatusOr<FoundCheckpoint> FindLatestCheckpoint(const std::string& directory) {
  FoundCheckpoint found;
  for (Candidate& candidate : CandidatesIn(directory)) {
    absl::Status status = candidate.status;
    if (status.ok()) {
      absl::StatusOr<CheckpointManifest> manifest = VerifyCheckpoint(candidate.path);
      if (manifest.ok()) {
        found.directory = candidate.path;
        found.manifest = *std::move(manifest);
        return found;
      }
      status = manifest.status();
    }
    found.passed_over.push_back(
        absl::StrCat(candidate.path, " is passed over: ", status.message()));
  }
  return absl::NotFoundError(absl::StrCat(
      "there is no complete checkpoint in ", directory,
      found.passed_over.empty() ? "" : ": ", absl::StrJoin(found.passed_over, "; ")));
}

}  // namespace strata
