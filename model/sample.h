/// A sample is what a row of a batch is made of: tokens, a label for each, and the
/// borders of the documents among them. Sources read samples from files, one at a time,
/// so that a data set of any size needs the memory of an index only.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <string>
#include <vector>

namespace strata {

struct Sample {
  std::vector<int32_t> tokens;
  std::vector<int32_t> labels;         // of the same token, not the next; kIgnoredLabel
  std::vector<int64_t> document_ends;  // rising; the last one is tokens.size()

  int64_t size() const { return static_cast<int64_t>(tokens.size()); }
};

/// What each position has to predict: the label of the next token of the same document.
/// kIgnoredLabel where there is none or it is not trained. [sample.size()]
std::vector<int32_t> Targets(const Sample& sample);

/// Positions with a target.
int64_t CountTargets(const Sample& sample);

/// Cuts the sample to its first `size` tokens.
void Truncate(Sample& sample, int64_t size);

/// A file of samples. Thread-safe: Read carries its own position.
class SampleSource {
 public:
  virtual ~SampleSource() = default;

  virtual int64_t size() const = 0;  // samples

  /// Replaces `sample`. Blocks. InvalidArgument, naming file and line or document, if
  /// it is not what the format asks for; token ids are not compared with any
  /// vocabulary.
  virtual absl::Status Read(int64_t index, Sample& sample) const = 0;

  /// "train.jsonl:17", for messages.
  virtual std::string Describe(int64_t index) const = 0;

  /// Tokens of a row if the samples are rows that somebody packed; 0 if not.
  virtual int64_t packed_length() const { return 0; }

  /// The samples are documents whose file had packed them at another length.
  virtual bool wants_packing() const { return false; }
};

}  // namespace strata
