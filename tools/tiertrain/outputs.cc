#include "tools/tiertrain/outputs.h"

#include <absl/strings/str_cat.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "runtime/base/status.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

struct NamedFile {
  const char* flag;
  std::string path;
};

std::vector<NamedFile> WrittenFiles(const TrainCommand& command) {
  std::vector<NamedFile> files;
  for (const auto& [flag, path] : {std::pair("--log_file", &command.log_file),
                                   std::pair("--timeline", &command.timeline),
                                   std::pair("--logits_file", &command.logits_file)}) {
    if (*path) files.push_back({flag, **path});
  }
  if (command.autotune) files.push_back({"--numerics", *command.numerics_file});
  return files;
}

std::vector<NamedFile> ReadFiles(const TrainCommand& command) {
  std::vector<NamedFile> files;
  for (const std::string& path : command.train_files) {
    files.push_back({"--train_file", path});
  }
  if (command.eval_file) files.push_back({"--eval_file", *command.eval_file});
  if (command.deepspeed_file) files.push_back({"--deepspeed", *command.deepspeed_file});
  return files;
}

// Also where one of them does not exist yet, or a link leads to the other.
bool SameFile(const std::string& a, const std::string& b) {
  std::error_code error;
  const fs::path whole_a = fs::weakly_canonical(a, error);
  return (!whole_a.empty() && whole_a == fs::weakly_canonical(b, error)) ||
         fs::equivalent(a, b, error);
}

absl::Status Refuse(const NamedFile& file, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(file.flag, " ", file.path, ": ", why));
}

absl::Status CheckFile(const NamedFile& file) {
  std::error_code error;
  const fs::file_status status = fs::status(file.path, error);
  if (fs::is_directory(status)) return Refuse(file, "this is a directory");
  if (fs::exists(status) && !fs::is_regular_file(status)) return absl::OkStatus();
  const fs::path parent = fs::absolute(file.path).parent_path();
  if (!fs::is_directory(parent, error)) {
    return Refuse(file,
                  absl::StrCat("its directory ", parent.string(), " does not exist"));
  }
  // Permissions do not tell of read-only drives and the like: try.
  const bool existed = fs::exists(status);
  const int descriptor = open(
      file.path.c_str(), O_WRONLY | O_CLOEXEC | (existed ? 0 : O_CREAT | O_EXCL), 0666);
  if (descriptor < 0) {
    return IoError(errno, absl::StrCat(file.flag, " ", file.path, ": cannot write it"));
  }
  close(descriptor);
  if (!existed) unlink(file.path.c_str());
  return absl::OkStatus();
}

absl::Status CheckDirectory(const NamedFile& directory) {
  std::error_code error;
  fs::path existing = fs::absolute(directory.path);
  while (!fs::exists(existing, error) && existing != existing.root_path()) {
    existing = existing.parent_path();
  }
  if (!fs::is_directory(existing, error)) {
    return Refuse(directory, existing == fs::absolute(directory.path)
                                 ? "this is a file"
                                 : absl::StrCat(existing.string(), " is a file"));
  }
  std::string probe = (existing / ".strata-probe-XXXXXX").string();
  if (mkdtemp(probe.data()) == nullptr) {
    return IoError(errno, absl::StrCat(directory.flag, " ", directory.path,
                                       ": cannot write into ", existing.string()));
  }
  rmdir(probe.c_str());
  return absl::OkStatus();
}

// Readers follow an index before they look for a single file.
absl::Status CheckNoIndex(const NamedFile& directory) {
  constexpr const char* kIndex = "model.safetensors.index.json";
  std::error_code error;
  if (!fs::exists(fs::path(directory.path) / kIndex, error)) return absl::OkStatus();
  return Refuse(directory,
                absl::StrCat("it holds ", kIndex,
                             " of another model, which would hide the trained one; "
                             "choose another directory or remove that model"));
}

}  // namespace

absl::Status CheckOutputs(const TrainCommand& command) {
  if (command.logits_file && !command.eval_file) {
    return absl::InvalidArgumentError(
        "--logits_file needs --eval_file: the logits are those of its first row");
  }
  std::vector<NamedFile> taken = ReadFiles(command);
  for (const NamedFile& file : WrittenFiles(command)) {
    for (const NamedFile& other : taken) {
      if (!SameFile(file.path, other.path)) continue;
      return Refuse(file, absl::StrCat(other.flag, " is the same file"));
    }
    STRATA_RETURN_IF_ERROR(CheckFile(file));
    taken.push_back(file);
  }
  if (!command.output_directory) return absl::OkStatus();
  const NamedFile directory{"--output_dir", *command.output_directory};
  if (directory.path.empty()) return Refuse(directory, "this names no directory");
  STRATA_RETURN_IF_ERROR(CheckDirectory(directory));
  return CheckNoIndex(directory);
}

}  // namespace strata
