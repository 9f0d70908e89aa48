#include "model/prepared_source.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <bit>

#include "kernels/ops.h"
#include "runtime/base/status.h"

namespace strata {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are little-endian");

absl::StatusOr<const TensorInfo*> FindVector(const SafetensorsFile& file,
                                             absl::string_view name, StoredType type) {
  const TensorInfo* tensor = file.Find(name);
  if (tensor == nullptr || tensor->type != type || tensor->shape.size() != 1) {
    const std::string found =
        tensor == nullptr
            ? "is missing"
            : absl::StrCat("is ", Name(tensor->type), " ", FormatShape(tensor->shape));
    return absl::InvalidArgumentError(
        absl::StrCat("tensor '", name, "' ", found, "; a vector of ", Name(type),
                     " is expected in files of tools/python/prepare_data.py"));
  }
  return tensor;
}

template <typename T>  // int32_t or int64_t, as stored
absl::Status ReadRange(const SafetensorsFile& file, const TensorInfo& tensor,
                       int64_t begin, std::vector<T>& out) {
  return file.Read(tensor, begin * static_cast<int64_t>(sizeof(T)),
                   std::as_writable_bytes(std::span(out)));
}

// The file fills rows up with a document that has no trained token.
void DropPadding(Sample& row) {
  if (row.document_ends.size() < 2) return;
  const int64_t begin = row.document_ends[row.document_ends.size() - 2];
  if (std::any_of(row.labels.begin() + begin, row.labels.end(),
                  [](int32_t label) { return label != kIgnoredLabel; })) {
    return;
  }
  row.document_ends.pop_back();
  row.tokens.resize(static_cast<size_t>(begin));
  row.labels.resize(static_cast<size_t>(begin));
}

}  // namespace

absl::StatusOr<std::unique_ptr<PreparedSource>> PreparedSource::Open(
    absl::string_view path, std::optional<int64_t> row_length) {
  STRATA_ASSIGN_OR_RETURN(auto file, SafetensorsFile::Open(path));
  std::unique_ptr<PreparedSource> source(new PreparedSource(std::move(file)));
  STRATA_RETURN_IF_ERROR(Annotate(source->FindTensors(), path));
  STRATA_RETURN_IF_ERROR(Annotate(source->ReadDocuments(), path));
  STRATA_RETURN_IF_ERROR(Annotate(source->FindRows(row_length), path));
  return source;
}

absl::Status PreparedSource::FindTensors() {
  STRATA_ASSIGN_OR_RETURN(tokens_, FindVector(*file_, "input_ids", StoredType::kI32));
  STRATA_ASSIGN_OR_RETURN(labels_, FindVector(*file_, "labels", StoredType::kI32));
  STRATA_ASSIGN_OR_RETURN(offsets_,
                          FindVector(*file_, "document_offsets", StoredType::kI64));
  if (tokens_->shape != labels_->shape) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor 'labels' has ", labels_->shape[0],
                     " values but 'input_ids' has ", tokens_->shape[0]));
  }
  return absl::OkStatus();
}

absl::Status PreparedSource::ReadDocuments() {
  document_offsets_.resize(static_cast<size_t>(offsets_->shape[0]));
  STRATA_RETURN_IF_ERROR(ReadRange(*file_, *offsets_, 0, document_offsets_));
  if (document_offsets_.empty() || document_offsets_.front() != 0 ||
      document_offsets_.back() != tokens_->shape[0] ||
      !std::is_sorted(document_offsets_.begin(), document_offsets_.end())) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor 'document_offsets' does not rise from 0 to the ",
                     tokens_->shape[0], " tokens of 'input_ids'"));
  }
  return absl::OkStatus();
}

absl::Status PreparedSource::FindRows(std::optional<int64_t> row_length) {
  const auto& metadata = file_->metadata();
  const auto packing = metadata.find("packing");
  if (packing == metadata.end() || packing->second != "true") return absl::OkStatus();
  const auto length_text = metadata.find("max_seq_length");
  int64_t length = 0;
  if (length_text == metadata.end() ||
      !absl::SimpleAtoi(length_text->second, &length) || length < 1 ||
      tokens_->shape[0] % length != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the metadata say packing = \"true\" but ", tokens_->shape[0],
        " tokens are no rows of max_seq_length = ",
        length_text == metadata.end() ? "(missing)" : length_text->second));
  }
  wants_packing_ = row_length && *row_length != length;
  if (!wants_packing_) packed_length_ = length;
  return absl::OkStatus();
}

int64_t PreparedSource::size() const {
  return packed_length_ > 0 ? tokens_->shape[0] / packed_length_
                            : static_cast<int64_t>(document_offsets_.size()) - 1;
}

std::string PreparedSource::Describe(int64_t index) const {
  return absl::StrCat(file_->path(), packed_length_ > 0 ? " row " : " document ",
                      index);
}

absl::Status PreparedSource::Read(int64_t index, Sample& sample) const {
  const bool packed = packed_length_ > 0;
  const auto position = static_cast<size_t>(index);
  const int64_t begin = packed ? index * packed_length_ : document_offsets_[position];
  const int64_t end = packed ? begin + packed_length_ : document_offsets_[position + 1];
  sample.tokens.resize(static_cast<size_t>(end - begin));
  sample.labels.resize(sample.tokens.size());
  STRATA_RETURN_IF_ERROR(ReadRange(*file_, *tokens_, begin, sample.tokens));
  STRATA_RETURN_IF_ERROR(ReadRange(*file_, *labels_, begin, sample.labels));
  sample.document_ends.clear();
  const auto first =
      std::upper_bound(document_offsets_.begin(), document_offsets_.end(), begin);
  for (auto border = first; border != document_offsets_.end() && *border < end;
       ++border) {
    if (border == first || *border != *(border - 1)) {
      sample.document_ends.push_back(*border - begin);
    }
  }
  if (end > begin) sample.document_ends.push_back(end - begin);
  if (packed) DropPadding(sample);
  return absl::OkStatus();
}

}  // namespace strata
