/// What is said about a configuration: faults that refuse it and warnings that do not.
/// They are collected, so that one run names all of them.
#pragma once

#include <absl/strings/str_cat.h>
#include <absl/strings/string_view.h>

#include <string>
#include <utility>
#include <vector>

namespace strata {

struct ConfigNote {
  std::string path;  // of the key, as it is written: "zero_optimization.cpu_offload"
  int line = 0;      // in the file; 0 if it is not about a place there
  std::string text;

  /// "ds.json:12: gradient_clipping: is 1 but --max_grad_norm is 2".
  std::string Format(absl::string_view file) const {
    const std::string place = line > 0 ? absl::StrCat(file, ":", line, ": ") : "";
    return absl::StrCat(place, path, path.empty() ? "" : ": ", text);
  }
};

struct ConfigReport {
  std::vector<ConfigNote> faults;
  std::vector<ConfigNote> warnings;

  void Refuse(absl::string_view path, int line, std::string text) {
    faults.push_back({std::string(path), line, std::move(text)});
  }
  void Warn(absl::string_view path, int line, std::string text) {
    warnings.push_back({std::string(path), line, std::move(text)});
  }
};

}  // namespace strata
