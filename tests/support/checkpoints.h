/// Looks into checkpoint directories, and damages them.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace strata {

std::string FileText(const std::string& path);

/// The files of a checkpoint but for its manifest, byte for byte.
std::map<std::string, std::string> TensorFiles(const std::string& directory);

/// The same as "N bytes, crc32c X", for comparing.
std::map<std::string, std::string> TensorSums(const std::string& directory);

/// Names of the directories checkpoint-N in `directory`, by N.
std::vector<std::string> CheckpointNames(const std::string& directory);

/// Rewrites manifest.json with its checksums right.
void ChangeManifest(const std::string& directory,
                    const std::function<void(nlohmann::ordered_json&)>& change);

/// Inverts one bit of a file.
void FlipBit(const std::string& path, int64_t byte, int bit);

}  // namespace strata
