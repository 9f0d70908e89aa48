#include "tests/support/checkpoints.h"

#include <absl/strings/str_cat.h>

#include <filesystem>
#include <fstream>
#include <span>
#include <sstream>

#include "model/checkpoint.h"
#include "model/checkpoint_folder.h"
#include "model/numerics.h"
#include "runtime/base/crc32c.h"
#include "runtime/base/status.h"

namespace strata {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::string FileText(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::map<std::string, std::string> TensorFiles(const std::string& directory) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(directory)) {
    const std::string name = entry.path().filename();
    if (name != kManifestName) files[name] = FileText(entry.path());
  }
  return files;
}

std::map<std::string, std::string> TensorSums(const std::string& directory) {
  std::map<std::string, std::string> sums;
  for (const auto& [name, bytes] : TensorFiles(directory)) {
    const uint32_t checksum = Crc32c(0, std::as_bytes(std::span(bytes)));
    sums[name] = absl::StrCat(bytes.size(), " bytes, crc32c ", absl::Hex(checksum));
  }
  return sums;
}

std::vector<std::string> CheckpointNames(const std::string& directory) {
  std::vector<std::string> names;
  for (const std::string& path : ListCheckpoints(directory)) {
    names.push_back(fs::path(path).filename());
  }
  return names;
}

void ChangeManifest(const std::string& directory,
                    const std::function<void(Json&)>& change) {
  const std::string path = directory + "/" + kManifestName;
  Json manifest = Json::parse(FileText(path));
  change(manifest);
  NumericsProfile profile;
  for (const bool decides : {true, false}) {
    for (const auto& [name, value] :
         manifest["numerics"][decides ? "decides" : "informs"].items()) {
      profile.entries.push_back({name, value, decides});
    }
  }
  manifest["numerics"]["hash"] = profile.Hash();
  std::string text = manifest.dump(2) + "\n";
  const size_t digits = text.find('"', text.find(':')) + 1;
  const std::span<const char> rest(text.data() + digits + 8, text.size() - digits - 8);
  text.replace(
      digits, 8,
      absl::StrCat(absl::Hex(Crc32c(0, std::as_bytes(rest)), absl::kZeroPad8)));
  std::ofstream(path, std::ios::binary) << text;
}

void FlipBit(const std::string& path, int64_t byte, int bit) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  char value = 0;
  file.seekg(byte).get(value);
  STRATA_CHECK(file.good());
  file.seekp(byte).put(static_cast<char>(value ^ (1 << bit)));
  STRATA_CHECK(file.good());
}

}  // namespace strata
