#include "model/dataset.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "kernels/ops.h"
#include "model/jsonl_source.h"
#include "model/permutation.h"
#include "model/prepared_source.h"
#include "model/row_packer.h"
#include "model/synthetic_source.h"
#include "runtime/base/status.h"

namespace strata {
namespace {

// Of packed rows where nothing says how long they should be.
constexpr int64_t kPackedRowTokens = 2048;

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> Dataset::Open(
    std::span<const std::string> paths, const DatasetOptions& options) {
  const int64_t limit = options.max_seq_length.value_or(options.max_position);
  if (limit > options.max_position || limit < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--max_seq_length is ", limit, " but the model's max_position_embeddings is ",
        options.max_position, "; choose a length from 1 to ", options.max_position));
  }
  std::unique_ptr<Dataset> dataset(new Dataset(options));
  STRATA_RETURN_IF_ERROR(dataset->OpenSources(paths));
  STRATA_RETURN_IF_ERROR(dataset->Scan());
  STRATA_RETURN_IF_ERROR(dataset->RefuseIfUseless(paths));
  dataset->LayOutRows();
  return dataset;
}

std::unique_ptr<Dataset> Dataset::Synthetic(int64_t row_count,
                                            const DatasetOptions& options) {
  const int64_t length = options.max_seq_length.value_or(options.max_position);
  std::unique_ptr<Dataset> dataset(new Dataset(options));
  dataset->sources_.push_back(std::make_unique<SyntheticSource>(
      SyntheticSource::Options{row_count, length, options.vocab, options.seed}));
  for (int64_t row = 0; row < row_count; ++row) dataset->items_.push_back({0, row});
  dataset->row_begins_.resize(static_cast<size_t>(row_count) + 1);
  std::iota(dataset->row_begins_.begin(), dataset->row_begins_.end(), 0);
  dataset->row_length_ = length;
  dataset->counters_ = {.read = row_count,
                        .used = row_count,
                        .tokens = row_count * length,
                        .trained_tokens = row_count * (length - 1)};
  return dataset;
}

absl::Status Dataset::OpenSources(std::span<const std::string> paths) {
  for (const std::string& path : paths) {
    if (absl::EndsWith(path, ".jsonl")) {
      STRATA_ASSIGN_OR_RETURN(sources_.emplace_back(), JsonlSource::Open(path));
    } else if (absl::EndsWith(path, ".safetensors")) {
      STRATA_ASSIGN_OR_RETURN(sources_.emplace_back(),
                              PreparedSource::Open(path, options_.max_seq_length));
    } else {
      return absl::InvalidArgumentError(absl::StrCat(
          path,
          ": neither .jsonl nor .safetensors; tools/python/prepare_data.py makes "
          "training data from text"));
    }
  }
  packing_ = options_.packing.value_or(
      std::any_of(sources_.begin(), sources_.end(),
                  [](const auto& source) { return source->wants_packing(); }));
  return absl::OkStatus();
}

absl::Status Dataset::Scan() {
  Sample sample;
  for (size_t source = 0; source < sources_.size(); ++source) {
    for (int64_t index = 0; index < sources_[source]->size(); ++index) {
      STRATA_RETURN_IF_ERROR(ScanSample({static_cast<int32_t>(source), index}, sample));
    }
  }
  return absl::OkStatus();
}

absl::Status Dataset::ScanSample(const Item& item, Sample& sample) {
  SampleSource& source = *sources_[static_cast<size_t>(item.source)];
  STRATA_RETURN_IF_ERROR(source.Read(item.index, sample));
  STRATA_RETURN_IF_ERROR(CheckTokens(item, sample));
  STRATA_RETURN_IF_ERROR(CheckLength(item, sample.size()));
  ++counters_.read;
  const int64_t whole_size = sample.size();
  const bool trained = CountTargets(sample) > 0;
  Truncate(sample, options_.max_seq_length.value_or(whole_size));
  const int64_t targets = CountTargets(sample);
  if (sample.size() == 0 || (trained && targets == 0)) {
    ++counters_.dropped;
    return absl::OkStatus();
  }
  if (!trained && packing_) {  // e.g. the padding of rows that come apart
    ++counters_.untrained;
    return absl::OkStatus();
  }
  ++counters_.used;
  counters_.untrained += !trained;
  counters_.truncated += sample.size() < whole_size;
  counters_.tokens += sample.size();
  counters_.trained_tokens += targets;
  items_.push_back(item);
  sizes_.push_back(sample.size());
  return absl::OkStatus();
}

absl::Status Dataset::CheckTokens(const Item& item, const Sample& sample) const {
  const auto bad = [this](int32_t id) { return id < 0 || id >= options_.vocab; };
  for (size_t i = 0; i < sample.tokens.size(); ++i) {
    const int32_t label = sample.labels[i];
    const bool bad_token = bad(sample.tokens[i]);
    if (!bad_token && (label == kIgnoredLabel || !bad(label))) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        Describe(item), ": ", bad_token ? "input_ids[" : "labels[", i, "] is ",
        bad_token ? sample.tokens[i] : label, " but the model's vocab_size is ",
        options_.vocab, "; was this data made with another tokenizer?"));
  }
  return absl::OkStatus();
}

absl::Status Dataset::CheckLength(const Item& item, int64_t size) const {
  if (options_.max_seq_length || size <= options_.max_position) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(Describe(item), ": ", size,
                   " tokens, but the model's max_position_embeddings is ",
                   options_.max_position, "; cut samples with --max_seq_length"));
}

absl::Status Dataset::RefuseIfUseless(std::span<const std::string> paths) const {
  const std::string files = absl::StrJoin(paths, ", ");
  if (counters_.read == 0) {
    return absl::InvalidArgumentError(absl::StrCat(files, ": no samples in it"));
  }
  if (counters_.trained_tokens > 0) return absl::OkStatus();
  const std::string limit =
      options_.max_seq_length
          ? absl::StrCat("; --max_seq_length ", *options_.max_seq_length,
                         " left no trained token in ", counters_.dropped)
          : "";
  return absl::InvalidArgumentError(absl::StrCat(files, ": no trainable tokens in ",
                                                 counters_.read, " samples", limit));
}

void Dataset::LayOutRows() {
  const int64_t longest = *std::max_element(sizes_.begin(), sizes_.end());
  std::vector<int64_t> row_of_item(items_.size());
  if (packing_) {
    const int64_t unasked =
        std::max(longest, std::min(kPackedRowTokens, options_.max_position));
    row_of_item = PackRows(sizes_, options_.max_seq_length.value_or(unasked));
  } else {
    std::iota(row_of_item.begin(), row_of_item.end(), 0);
  }
  const int64_t rows = *std::max_element(row_of_item.begin(), row_of_item.end()) + 1;
  std::vector<int64_t> row_sizes(static_cast<size_t>(rows));
  row_begins_.assign(static_cast<size_t>(rows) + 1, 0);
  for (size_t i = 0; i < items_.size(); ++i) {
    ++row_begins_[static_cast<size_t>(row_of_item[i]) + 1];
    row_sizes[static_cast<size_t>(row_of_item[i])] += sizes_[i];
  }
  std::partial_sum(row_begins_.begin(), row_begins_.end(), row_begins_.begin());
  std::vector<int64_t> next(row_begins_.begin(), row_begins_.end() - 1);
  std::vector<Item> ordered(items_.size());
  for (size_t i = 0; i < items_.size(); ++i) {
    ordered[static_cast<size_t>(next[static_cast<size_t>(row_of_item[i])]++)] =
        items_[i];
  }
  items_ = std::move(ordered);
  row_length_ = *std::max_element(row_sizes.begin(), row_sizes.end());
  // Rows that came packed keep their length, however much of it is padding.
  for (const auto& source : sources_) {
    row_length_ = std::max(row_length_, source->packed_length());
  }
  counters_.padding_tokens = rows * row_length_ - counters_.tokens;
  std::vector<int64_t>().swap(sizes_);
}

std::string Dataset::Describe(const Item& item) const {
  return sources_[static_cast<size_t>(item.source)]->Describe(item.index);
}

std::string Dataset::Summary() const {
  const double all = static_cast<double>(counters_.tokens + counters_.padding_tokens);
  return absl::StrCat(
      counters_.read, " samples read, ", counters_.used, " used, ", counters_.dropped,
      " dropped, ", counters_.truncated, " truncated, ", counters_.untrained,
      " without a trained token; ", row_count(), " rows of up to ", row_length_,
      " tokens, ", counters_.tokens, " tokens, ", counters_.trained_tokens,
      " trained, ",
      absl::StrFormat("%.1f %% padding", 100.0 * counters_.padding_tokens / all));
}

absl::Status Dataset::ReadSample(const Item& item, Sample& sample) const {
  STRATA_RETURN_IF_ERROR(
      sources_[static_cast<size_t>(item.source)]->Read(item.index, sample));
  // Again, as a file may have changed since: a wrong token would be a wrong address.
  STRATA_RETURN_IF_ERROR(CheckTokens(item, sample));
  Truncate(sample, options_.max_seq_length.value_or(sample.size()));
  return absl::OkStatus();
}

absl::Status Dataset::Fill(int64_t epoch, int64_t first, Batch& batch) const {
  STRATA_CHECK(first >= 0 && batch.length() >= row_length_);
  batch.Clear();
  Sample sample;
  const Permutation order(row_count(), options_.seed, epoch);
  for (int64_t i = 0; i < batch.rows() && first + i < row_count(); ++i) {
    const int64_t row = options_.shuffle ? order(first + i) : first + i;
    int64_t room = batch.length();
    for (int64_t at = row_begins_[row]; at < row_begins_[row + 1]; ++at) {
      const Item& item = items_[static_cast<size_t>(at)];
      STRATA_RETURN_IF_ERROR(ReadSample(item, sample));
      room -= sample.size();
      if (room < 0) {
        return WithMend(absl::DataLossError(absl::StrCat(
                            Describe(item), ": the file changed while it was open")),
                        "leave the data alone while they are trained on");
      }
      batch.Append(i, sample);
    }
  }
  return absl::OkStatus();
}

}  // namespace strata
