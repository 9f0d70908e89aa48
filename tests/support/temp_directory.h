/// A directory of the test's own that goes away with everything in it.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "runtime/base/status.h"

namespace strata {

class TempDirectory {
 public:
  TempDirectory() : path_(testing::TempDir() + "strata-test-XXXXXX") {
    STRATA_CHECK(mkdtemp(path_.data()) != nullptr);
  }
  ~TempDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDirectory(const TempDirectory&) = delete;
  TempDirectory& operator=(const TempDirectory&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

/// Paths of everything below `directory`, relative to it, sorted.
inline std::vector<std::string> ListTree(const std::string& directory) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
    names.push_back(entry.path().lexically_relative(directory).string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace strata
