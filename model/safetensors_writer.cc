#include "model/safetensors_writer.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "runtime/base/crc32c.h"
#include "runtime/base/status.h"

namespace strata {
namespace {

constexpr int64_t kPrefixBytes = 8;  // the header's size

void AppendQuoted(std::string& out, absl::string_view text) {
  out.push_back('"');
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20) {
      absl::StrAppend(&out, "\\u00", absl::Hex(byte, absl::kZeroPad2));
      continue;
    }
    if (c == '"' || c == '\\') out.push_back('\\');
    out.push_back(c);
  }
  out.push_back('"');
}

std::string MetadataJson(const std::map<std::string, std::string>& metadata) {
  std::string json = "\"__metadata__\":{";
  for (const auto& [key, value] : metadata) {
    if (json.back() != '{') json.push_back(',');
    AppendQuoted(json, key);
    json.push_back(':');
    AppendQuoted(json, value);
  }
  json.push_back('}');
  return json;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(absl::string_view path)
    : path_(path), temporary_path_(absl::StrCat(path, ".", getpid(), ".tmp")) {}

absl::StatusOr<std::unique_ptr<SafetensorsWriter>> SafetensorsWriter::Create(
    absl::string_view path, std::span<const StoredTensorSpec> specs,
    const std::map<std::string, std::string>& metadata) {
  std::unique_ptr<SafetensorsWriter> writer(new SafetensorsWriter(path));
  writer->descriptor_ = open(writer->temporary_path_.c_str(),
                             O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (writer->descriptor_ < 0) {
    return IoError(errno, absl::StrCat("create ", writer->temporary_path_));
  }
  STRATA_RETURN_IF_ERROR(writer->WriteHeader(specs, metadata));
  return writer;
}

SafetensorsWriter::~SafetensorsWriter() {
  if (descriptor_ < 0) return;
  close(descriptor_);
  unlink(temporary_path_.c_str());
}

absl::Status SafetensorsWriter::WriteHeader(
    std::span<const StoredTensorSpec> specs,
    const std::map<std::string, std::string>& metadata) {
  std::vector<StoredTensorSpec> sorted(specs.begin(), specs.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const StoredTensorSpec& a, const StoredTensorSpec& b) {
                     return SizeOf(a.type) > SizeOf(b.type);
                   });
  std::string header = absl::StrCat("{", MetadataJson(metadata));
  int64_t end = 0;
  for (const StoredTensorSpec& spec : sorted) {
    const std::optional<int64_t> size_bytes = BytesOf(spec.type, spec.shape);
    STRATA_CHECK(size_bytes.has_value());
    TensorInfo info{spec.name, spec.type, spec.shape, end, *size_bytes};
    end += *size_bytes;
    header.push_back(',');
    AppendQuoted(header, spec.name);
    absl::StrAppend(&header, ":{\"dtype\":\"", Name(spec.type), "\",\"shape\":[",
                    absl::StrJoin(spec.shape, ","), "],\"data_offsets\":[",
                    info.offset_bytes, ",", end, "]}");
    STRATA_CHECK(slots_.emplace(spec.name, Slot{std::move(info)}).second);
  }
  header.push_back('}');
  header.append(AlignUp(header.size(), 8) - header.size(), ' ');
  std::string prefix;
  for (uint64_t rest = header.size(), i = 0; i < kPrefixBytes; ++i, rest >>= 8) {
    prefix.push_back(static_cast<char>(rest & 0xFF));
  }
  const int64_t data_start = kPrefixBytes + static_cast<int64_t>(header.size());
  for (auto& [name, slot] : slots_) slot.info.offset_bytes += data_start;
  file_size_bytes_ = data_start + end;
  STRATA_RETURN_IF_ERROR(Reserve());
  const std::string head = prefix + header;
  return WriteAt(0, std::as_bytes(std::span(head)), "header");
}

absl::Status SafetensorsWriter::Reserve() {
  while (fallocate(descriptor_, 0, 0, file_size_bytes_) != 0) {
    if (errno == EINTR) continue;
    if (errno == EOPNOTSUPP || errno == ENOSYS) return absl::OkStatus();
    return IoError(errno, absl::StrCat("reserve ", file_size_bytes_, " bytes for ",
                                       temporary_path_));
  }
  return absl::OkStatus();
}

absl::Status SafetensorsWriter::WriteAt(int64_t offset_bytes,
                                        std::span<const std::byte> bytes,
                                        absl::string_view what) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = pwrite(descriptor_, bytes.data() + done, bytes.size() - done,
                                 offset_bytes + static_cast<int64_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      return IoError(count < 0 ? errno : ENOSPC,
                     absl::StrCat("write ", what, " to ", temporary_path_, " at ",
                                  offset_bytes, "+", bytes.size()));
    }
    done += static_cast<size_t>(count);
  }
  if (offset_bytes == checksum_end_bytes_) {
    checksum_ = Crc32c(checksum_, bytes);
    checksum_end_bytes_ += static_cast<int64_t>(bytes.size());
  }
  return absl::OkStatus();
}

uint32_t SafetensorsWriter::checksum() const {
  STRATA_CHECK(checksum_end_bytes_ == file_size_bytes_);
  return checksum_;
}

absl::Status SafetensorsWriter::Append(absl::string_view name,
                                       std::span<const std::byte> bytes) {
  const auto found = slots_.find(std::string(name));
  STRATA_CHECK(found != slots_.end());
  Slot& slot = found->second;
  const auto size_bytes = static_cast<int64_t>(bytes.size());
  STRATA_CHECK(slot.written_bytes + size_bytes <= slot.info.size_bytes);
  STRATA_RETURN_IF_ERROR(WriteAt(slot.info.offset_bytes + slot.written_bytes, bytes,
                                 absl::StrCat("tensor '", name, "'")));
  slot.written_bytes += size_bytes;
  return absl::OkStatus();
}

absl::Status SafetensorsWriter::Finish() {
  for (const auto& [name, slot] : slots_) {
    if (slot.written_bytes == slot.info.size_bytes) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("finish ", path_, ": tensor '", name, "' has ", slot.written_bytes,
                     " of ", slot.info.size_bytes, " bytes"));
  }
  if (fsync(descriptor_) != 0) return IoError(errno, absl::StrCat("flush ", path_));
  if (rename(temporary_path_.c_str(), path_.c_str()) != 0) {
    return IoError(errno, absl::StrCat("rename ", temporary_path_, " to ", path_));
  }
  close(descriptor_);
  descriptor_ = -1;
  const size_t slash = path_.rfind('/');
  const std::string folder =
      slash == std::string::npos ? "." : path_.substr(0, std::max<size_t>(slash, 1));
  const int folder_descriptor =
      open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder_descriptor < 0) return IoError(errno, absl::StrCat("open ", folder));
  const int failed = fsync(folder_descriptor);
  const int error_number = errno;
  close(folder_descriptor);
  return failed == 0 ? absl::OkStatus()
                     : IoError(error_number, absl::StrCat("flush ", folder));
}

}  // namespace strata
