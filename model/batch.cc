#include "model/batch.h"

#include <algorithm>

#include "kernels/ops.h"
#include "runtime/base/status.h"

namespace strata {

Batch::Batch(int64_t rows, int64_t length) : rows_(rows), length_(length) {
  STRATA_CHECK(rows >= 1 && length >= 1);
  for (std::vector<int32_t>* values : {&tokens, &targets, &documents, &positions}) {
    values->resize(static_cast<size_t>(size()));
  }
  used_of_row_.resize(static_cast<size_t>(rows));
  documents_of_row_.resize(static_cast<size_t>(rows));
  Clear();
}

void Batch::Clear() {
  std::fill(tokens.begin(), tokens.end(), 0);
  std::fill(targets.begin(), targets.end(), kIgnoredLabel);
  std::fill(documents.begin(), documents.end(), -1);
  std::fill(positions.begin(), positions.end(), 0);
  std::fill(used_of_row_.begin(), used_of_row_.end(), 0);
  std::fill(documents_of_row_.begin(), documents_of_row_.end(), 0);
  used_tokens = 0;
  trained_tokens = 0;
}

void Batch::Append(int64_t row, const Sample& sample) {
  int64_t& used = used_of_row_[static_cast<size_t>(row)];
  STRATA_CHECK(used + sample.size() <= length_);
  const int64_t start = row * length_ + used;
  const std::vector<int32_t> sample_targets = Targets(sample);
  std::copy(sample.tokens.begin(), sample.tokens.end(), tokens.begin() + start);
  std::copy(sample_targets.begin(), sample_targets.end(), targets.begin() + start);
  int64_t begin = 0;
  for (int64_t end : sample.document_ends) {
    const int32_t document = documents_of_row_[static_cast<size_t>(row)]++;
    for (int64_t i = begin; i < end; ++i) {
      documents[static_cast<size_t>(start + i)] = document;
      positions[static_cast<size_t>(start + i)] = static_cast<int32_t>(i - begin);
    }
    begin = end;
  }
  used += sample.size();
  used_tokens += sample.size();
  trained_tokens +=
      std::count_if(sample_targets.begin(), sample_targets.end(),
                    [](int32_t target) { return target != kIgnoredLabel; });
}

}  // namespace strata
