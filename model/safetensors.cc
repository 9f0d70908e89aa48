#include "model/safetensors.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "model/json_reader.h"
#include "runtime/base/status.h"

namespace strata {
namespace {

constexpr int64_t kPrefixBytes = 8;                   // the header's size
constexpr int64_t kHeaderSizeMaxBytes = 100'000'000;  // as in the reference reader
constexpr std::array<StoredType, 6> kStoredTypes = {
    StoredType::kF32, StoredType::kF16, StoredType::kBF16,
    StoredType::kI16, StoredType::kI32, StoredType::kI64};

std::optional<StoredType> ParseStoredType(absl::string_view text) {
  for (StoredType type : kStoredTypes) {
    if (text == Name(type)) return type;
  }
  return std::nullopt;
}

absl::StatusOr<std::vector<int64_t>> ParseCounts(const JsonValue* value,
                                                 absl::string_view key) {
  std::vector<int64_t> counts;
  if (value == nullptr || !value->is_array()) {
    return absl::InvalidArgumentError(absl::StrCat(key, " is no list"));
  }
  for (const JsonValue& item : value->items) {
    const std::optional<int64_t> count = item.AsInteger();
    if (!count || *count < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(key, " holds ", item.Describe(), ", which is no count"));
    }
    counts.push_back(*count);
  }
  return counts;
}

absl::StatusOr<TensorInfo> ParseTensor(const JsonMember& member) {
  const JsonValue* type_text = member.value.Find("dtype");
  if (type_text == nullptr || !type_text->is_string()) {
    return absl::InvalidArgumentError("has no dtype");
  }
  const std::optional<StoredType> type = ParseStoredType(type_text->text);
  if (!type) {
    return absl::InvalidArgumentError(
        absl::StrCat("dtype ", type_text->Describe(),
                     " is not supported; F32, F16, BF16, I16, I32 and I64 are"));
  }
  TensorInfo tensor{.name = member.name, .type = *type};
  STRATA_ASSIGN_OR_RETURN(tensor.shape,
                          ParseCounts(member.value.Find("shape"), "shape"));
  STRATA_ASSIGN_OR_RETURN(
      const std::vector<int64_t> range,
      ParseCounts(member.value.Find("data_offsets"), "data_offsets"));
  if (range.size() != 2 || range[1] < range[0]) {
    return absl::InvalidArgumentError("data_offsets is no [begin, end]");
  }
  tensor.offset_bytes = range[0];
  tensor.size_bytes = range[1] - range[0];
  if (BytesOf(*type, tensor.shape) != tensor.size_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        Name(*type), " ", FormatShape(tensor.shape), " does not fill data_offsets [",
        range[0], ", ", range[1], "] (", tensor.size_bytes, " bytes)"));
  }
  return tensor;
}

// The tensors lie back to back from 0 to `data_bytes`: no hole, no overlap, no rest.
absl::Status CheckCoverage(std::span<const TensorInfo> sorted, int64_t data_bytes) {
  int64_t end = 0;
  for (const TensorInfo& tensor : sorted) {
    const int64_t tensor_end = tensor.offset_bytes + tensor.size_bytes;
    if (tensor_end > data_bytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor '", tensor.name, "' ends at data byte ", tensor_end,
                       " but the file holds ", data_bytes,
                       "; it is cut short: fetch or write it again"));
    }
    if (tensor.offset_bytes != end) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor '", tensor.name, "' begins at data byte ", tensor.offset_bytes,
          tensor.offset_bytes < end ? " and overlaps what ends at "
                                    : " and leaves a hole after ",
          end));
    }
    end = tensor_end;
  }
  if (end != data_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the tensors end at data byte ", end, " but the file holds ",
                     data_bytes, "; it is damaged: fetch or write it again"));
  }
  return absl::OkStatus();
}

absl::Status ReadFully(int descriptor, int64_t offset_bytes, std::span<std::byte> out,
                       absl::string_view what) {
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t count = pread(descriptor, out.data() + done, out.size() - done,
                                offset_bytes + static_cast<int64_t>(done));
    if (count < 0 && errno == EINTR) continue;
    const std::string where =
        absl::StrCat("read ", what, " at ", offset_bytes, "+", out.size());
    if (count < 0) return IoError(errno, where);
    if (count == 0) {
      return absl::DataLossError(absl::StrCat(where, ": the file ended after ", done,
                                              " bytes; it changed while it was open"));
    }
    done += static_cast<size_t>(count);
  }
  return absl::OkStatus();
}

}  // namespace

int64_t SizeOf(StoredType type) {
  switch (type) {
    case StoredType::kF16:
    case StoredType::kBF16:
    case StoredType::kI16:
      return 2;
    case StoredType::kI64:
      return 8;
    case StoredType::kF32:
    case StoredType::kI32:
      break;
  }
  return 4;
}

const char* Name(StoredType type) {
  static constexpr std::array<const char*, 6> kNames = {"F32", "F16", "BF16",
                                                        "I16", "I32", "I64"};
  return kNames[static_cast<size_t>(type)];
}

StoredType StoredTypeOf(DType dtype) {
  return dtype == DType::kF32    ? StoredType::kF32
         : dtype == DType::kBF16 ? StoredType::kBF16
                                 : StoredType::kF16;
}

bool IsFloat(StoredType type) {
  return type == StoredType::kF32 || type == StoredType::kF16 ||
         type == StoredType::kBF16;
}

std::optional<int64_t> BytesOf(StoredType type, std::span<const int64_t> shape) {
  int64_t size_bytes = SizeOf(type);
  for (int64_t extent : shape) {
    if (__builtin_mul_overflow(size_bytes, extent, &size_bytes)) return std::nullopt;
  }
  return size_bytes;
}

std::string FormatShape(std::span<const int64_t> shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

absl::StatusOr<std::unique_ptr<SafetensorsFile>> SafetensorsFile::Open(
    absl::string_view path) {
  const std::string name(path);
  const int descriptor = open(name.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return IoError(errno, absl::StrCat("open ", path));
  std::unique_ptr<SafetensorsFile> file(new SafetensorsFile(name, descriptor));
  STRATA_RETURN_IF_ERROR(Annotate(file->ReadHeader(), path));
  return file;
}

SafetensorsFile::~SafetensorsFile() { close(descriptor_); }

absl::Status SafetensorsFile::ReadHeader() {
  struct stat status = {};
  if (fstat(descriptor_, &status) != 0) return IoError(errno, "fstat");
  if (!S_ISREG(status.st_mode)) return absl::InvalidArgumentError("is no regular file");
  const int64_t file_bytes = status.st_size;
  if (file_bytes < kPrefixBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("has ", file_bytes, " bytes and is no safetensors file"));
  }
  std::array<unsigned char, kPrefixBytes> prefix = {};
  STRATA_RETURN_IF_ERROR(ReadFully(
      descriptor_, 0, std::as_writable_bytes(std::span(prefix)), "header size"));
  uint64_t header_bytes = 0;
  for (size_t i = prefix.size(); i-- > 0;) header_bytes = header_bytes << 8 | prefix[i];
  const int64_t header_max = std::min(kHeaderSizeMaxBytes, file_bytes - kPrefixBytes);
  if (header_bytes > static_cast<uint64_t>(header_max)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "claims a header of ", header_bytes, " bytes where at most ", header_max,
        " are possible; it is no safetensors file, or cut short"));
  }
  std::string text(header_bytes, '\0');
  STRATA_RETURN_IF_ERROR(ReadFully(descriptor_, kPrefixBytes,
                                   std::as_writable_bytes(std::span(text)), "header"));
  STRATA_ASSIGN_OR_RETURN(const JsonValue header, ParseJson(text, "header"));
  if (!header.is_object()) return absl::InvalidArgumentError("the header is no object");

  for (const JsonMember& member : header.members) {
    if (member.name == "__metadata__") {
      for (const JsonMember& entry : member.value.members) {
        metadata_[entry.name] = entry.value.text;
      }
      continue;
    }
    absl::StatusOr<TensorInfo> tensor = ParseTensor(member);
    if (!tensor.ok()) {
      return Annotate(tensor.status(), absl::StrCat("tensor '", member.name, "'"));
    }
    tensors_.push_back(*std::move(tensor));
  }
  std::stable_sort(tensors_.begin(), tensors_.end(),
                   [](const TensorInfo& a, const TensorInfo& b) {
                     return std::pair(a.offset_bytes, a.size_bytes) <
                            std::pair(b.offset_bytes, b.size_bytes);
                   });
  const int64_t data_start = kPrefixBytes + static_cast<int64_t>(header_bytes);
  STRATA_RETURN_IF_ERROR(CheckCoverage(tensors_, file_bytes - data_start));
  for (size_t i = 0; i < tensors_.size(); ++i) {
    tensors_[i].offset_bytes += data_start;
    index_[tensors_[i].name] = i;
  }
  return absl::OkStatus();
}

const TensorInfo* SafetensorsFile::Find(absl::string_view name) const {
  const auto found = index_.find(std::string(name));
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

absl::Status SafetensorsFile::Read(const TensorInfo& tensor, int64_t offset_bytes,
                                   std::span<std::byte> out) const {
  const auto size = static_cast<int64_t>(out.size());
  STRATA_CHECK(offset_bytes >= 0 && offset_bytes <= tensor.size_bytes - size);
  return ReadFully(descriptor_, tensor.offset_bytes + offset_bytes, out,
                   absl::StrCat("tensor '", tensor.name, "' in ", path_));
}

}  // namespace strata
