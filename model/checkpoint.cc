#include "model/checkpoint.h"

#include <absl/cleanup/cleanup.h>
#include <absl/strings/str_cat.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <random>

#include "model/text_file.h"
#include "runtime/base/crc32c.h"
#include "runtime/base/status.h"

namespace strata {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "strata-checkpoint";
constexpr int64_t kVersion = 1;
/// How a manifest's text begins; eight digits follow, and cover all that comes after.
constexpr absl::string_view kHead = "{\n  \"checksum\": \"";
constexpr size_t kDigits = 8;
constexpr int64_t kReadBytes = 4 * kMiB;

std::string Hex(uint32_t checksum) {
  return absl::StrCat(absl::Hex(checksum, absl::kZeroPad8));
}

uint32_t ChecksumOf(absl::string_view text) {
  return Crc32c(0, std::as_bytes(std::span(text.data(), text.size())));
}

/// Reads members of an object, and remembers the first that was not as it should be.
class Members {
 public:
  Members(const Json& object, absl::string_view name) : object_(object), name_(name) {}

  int64_t Count(const char* key) {
    const auto found = object_.find(key);
    if (found != object_.end() && found->is_number_integer() &&
        found->get<int64_t>() >= 0) {
      return found->get<int64_t>();
    }
    Fail(key, "is no count");
    return 0;
  }
  std::string Text(const char* key) {
    const auto found = object_.find(key);
    if (found != object_.end() && found->is_string()) return found->get<std::string>();
    Fail(key, "is no text");
    return "";
  }
  const absl::Status& status() const { return status_; }

 private:
  void Fail(const char* key, const char* why) {
    if (!status_.ok()) return;
    status_ = absl::InvalidArgumentError(absl::StrCat(name_, ": ", key, " ", why));
  }
  const Json& object_;
  const absl::string_view name_;
  absl::Status status_;
};

absl::StatusOr<std::vector<CheckpointFile>> ParseFiles(const Json& root,
                                                       absl::string_view name) {
  const auto list = root.find("files");
  if (list == root.end() || !list->is_array()) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": files is no list"));
  }
  std::vector<CheckpointFile> files;
  for (const Json& item : *list) {
    Members members(item, name);
    CheckpointFile file{.name = members.Text("name"),
                        .size_bytes = members.Count("bytes")};
    const std::string digits = members.Text("crc32c");
    STRATA_RETURN_IF_ERROR(members.status());
    if (file.name.empty() || file.name.find('/') != std::string::npos) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ": '", file.name, "' is no name of a file"));
    }
    for (const char c : digits) {
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                               : -1;
      if (digit < 0 || digits.size() != kDigits) {
        return absl::InvalidArgumentError(
            absl::StrCat(name, ": '", digits, "' is no checksum"));
      }
      file.checksum = file.checksum << 4 | static_cast<uint32_t>(digit);
    }
    files.push_back(std::move(file));
  }
  return files;
}

absl::StatusOr<CheckpointManifest> FromJson(const Json& root, absl::string_view name) {
  Members members(root, name);
  const std::string format = members.Text("format");
  const int64_t version = members.Count("version");
  STRATA_RETURN_IF_ERROR(members.status());
  if (format != kFormat) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": format is '", format, "', not '", kFormat, "'"));
  }
  if (version > kVersion) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, ": version ", version, " is newer than the ", kVersion, " known here"));
  }
  CheckpointManifest manifest;
  RunState& run = manifest.run;
  manifest.saved_unix_milliseconds = members.Count("saved_unix_milliseconds");
  run.run_id = members.Text("run_id");
  run.step = members.Count("step");
  run.epoch = members.Count("epoch");
  run.row = members.Count("row");
  run.tokens = members.Count("tokens_total");
  run.trained_tokens = members.Count("trained_tokens_total");
  run.skipped_steps = members.Count("skipped_steps");
  run.clipped_steps = members.Count("clipped_steps");
  run.skipped_in_a_row = members.Count("skipped_in_a_row");
  manifest.trainer.applied_steps = members.Count("applied_steps");
  const int64_t clips = members.Count("recent_clips");
  STRATA_RETURN_IF_ERROR(members.status());
  manifest.trainer.recent_clips = static_cast<uint16_t>(clips);
  const auto numerics = root.find("numerics"), application = root.find("application");
  if (clips > UINT16_MAX || numerics == root.end() || application == root.end() ||
      !application->is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, ": recent_clips, numerics or application is not as it should be"));
  }
  run.application = application->dump();
  STRATA_ASSIGN_OR_RETURN(manifest.numerics, NumericsFromJson(*numerics, name));
  STRATA_ASSIGN_OR_RETURN(manifest.files, ParseFiles(root, name));
  return manifest;
}

}  // namespace

std::string MakeRunId() {
  std::random_device random;
  return absl::StrCat(absl::Hex(random(), absl::kZeroPad8),
                      absl::Hex(random(), absl::kZeroPad8));
}

std::string FormatManifest(const CheckpointManifest& manifest) {
  const RunState& run = manifest.run;
  Json files = Json::array();
  for (const CheckpointFile& file : manifest.files) {
    files.push_back({{"name", file.name},
                     {"bytes", file.size_bytes},
                     {"crc32c", Hex(file.checksum)}});
  }
  const Json root = {
      {"checksum", std::string(kDigits, '0')},
      {"format", kFormat},
      {"version", kVersion},
      {"run_id", run.run_id},
      {"saved_unix_milliseconds", manifest.saved_unix_milliseconds},
      {"step", run.step},
      {"applied_steps", manifest.trainer.applied_steps},
      {"epoch", run.epoch},
      {"row", run.row},
      {"tokens_total", run.tokens},
      {"trained_tokens_total", run.trained_tokens},
      {"skipped_steps", run.skipped_steps},
      {"clipped_steps", run.clipped_steps},
      {"skipped_in_a_row", run.skipped_in_a_row},
      {"recent_clips", manifest.trainer.recent_clips},
      {"loss_scale", nullptr},
      {"files", files},
      {"numerics", ToJson(manifest.numerics)},
      {"application", Json::parse(run.application, nullptr, false)},
  };
  std::string text = root.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  STRATA_CHECK(absl::string_view(text).substr(0, kHead.size()) == kHead);
  const size_t rest = kHead.size() + kDigits;
  text.replace(kHead.size(), kDigits,
               Hex(ChecksumOf(absl::string_view(text).substr(rest))));
  return text;
}

absl::StatusOr<CheckpointManifest> ParseManifest(absl::string_view text,
                                                 absl::string_view name) {
  const size_t rest = kHead.size() + kDigits;
  if (text.size() < rest || text.substr(0, kHead.size()) != kHead) {
    return absl::DataLossError(absl::StrCat(name, ": this is no manifest, or damaged"));
  }
  const std::string expected = Hex(ChecksumOf(text.substr(rest)));
  const absl::string_view found = text.substr(kHead.size(), kDigits);
  if (found != expected) {
    return absl::DataLossError(absl::StrCat(name, ": its checksum is ", expected,
                                            ", and it says ", found,
                                            ": it was changed or damaged"));
  }
  const Json root = Json::parse(text.begin(), text.end(), nullptr, false);
  if (!root.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": this is no JSON object"));
  }
  return FromJson(root, name);
}

absl::StatusOr<CheckpointManifest> ReadManifest(const std::string& directory) {
  const std::string path = absl::StrCat(directory, "/", kManifestName);
  absl::StatusOr<std::string> text = ReadTextFile(path);
  if (absl::IsNotFound(text.status())) {
    return absl::NotFoundError(
        absl::StrCat(directory, " has no ", kManifestName,
                     ": it is no checkpoint of this program, or was never completed"));
  }
  STRATA_RETURN_IF_ERROR(text.status());
  return ParseManifest(*text, path);
}

absl::StatusOr<CheckpointFile> DescribeFile(const std::string& directory,
                                            const std::string& name) {
  const std::string path = absl::StrCat(directory, "/", name);
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return IoError(errno, absl::StrCat("open ", path));
  const absl::Cleanup close_file = [descriptor] { close(descriptor); };
  std::vector<std::byte> buffer(static_cast<size_t>(kReadBytes));
  CheckpointFile file{.name = name};
  for (;;) {
    const ssize_t count = read(descriptor, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      return IoError(errno, absl::StrCat("read ", path, " at ", file.size_bytes));
    }
    if (count == 0) return file;
    file.size_bytes += count;
    file.checksum =
        Crc32c(file.checksum, std::span(buffer).first(static_cast<size_t>(count)));
  }
}

absl::StatusOr<CheckpointManifest> VerifyCheckpoint(const std::string& directory) {
  STRATA_ASSIGN_OR_RETURN(CheckpointManifest manifest, ReadManifest(directory));
  // Sizes first: they cost nothing.
  for (const CheckpointFile& file : manifest.files) {
    const std::string path = absl::StrCat(directory, "/", file.name);
    struct stat info {};
    if (stat(path.c_str(), &info) != 0) {
      return errno == ENOENT ? absl::NotFoundError(absl::StrCat(path, " is missing"))
                             : IoError(errno, path);
    }
    if (info.st_size != file.size_bytes) {
      return absl::DataLossError(
          absl::StrCat(path, " has ", static_cast<int64_t>(info.st_size),
                       " bytes where the manifest says ", file.size_bytes));
    }
  }
  for (const CheckpointFile& file : manifest.files) {
    STRATA_ASSIGN_OR_RETURN(const CheckpointFile found,
                            DescribeFile(directory, file.name));
    if (found == file) continue;
    return absl::DataLossError(absl::StrCat(
        directory, "/", file.name, " is damaged: its checksum is ", Hex(found.checksum),
        " where the manifest says ", Hex(file.checksum)));
  }
  return manifest;
}

}  // namespace strata
