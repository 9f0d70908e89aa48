/// Seeded random tokens, for benchmarks that need no data.
#pragma once

#include <cstdint>
#include <string>

#include "model/sample.h"

namespace strata {

/// Rows of `length` tokens, each a pure function of seed and index; all are trained.
class SyntheticSource final : public SampleSource {
 public:
  struct Options {
    int64_t size;    // samples
    int64_t length;  // tokens of each
    int64_t vocab;
    uint64_t seed;
  };
  explicit SyntheticSource(const Options& options) : options_(options) {}

  int64_t size() const override { return options_.size; }
  absl::Status Read(int64_t index, Sample& sample) const override;
  std::string Describe(int64_t index) const override;
  int64_t packed_length() const override { return options_.length; }

 private:
  Options options_;
};

}  // namespace strata
