/// A directory of its own for each test, removed with everything in it.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "runtime/base/status.h"

namespace strata {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    const std::filesystem::path parent = std::filesystem::temp_directory_path();
    path_ = (parent / "strata-test-XXXXXX").string();
    STRATA_CHECK(mkdtemp(path_.data()) != nullptr);
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const { return path_; }
  /// The path of `name` within.
  std::string File(const std::string& name) const { return path_ + "/" + name; }
  /// Writes a file of that name and returns its path.
  std::string Write(const std::string& name, const std::string& bytes) const {
    std::ofstream(File(name), std::ios::binary) << bytes;
    return File(name);
  }

 private:
  std::string path_;
};

}  // namespace strata
