#include "model/model_files.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <memory>
#include <numbers>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "model/safetensors_writer.h"
#include "model/stored_floats.h"
#include "model/text_file.h"
#include "runtime/base/status.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

// What a tokenizer consists of, as transformers saves it.
constexpr std::array kTokenizerFiles = {"tokenizer.json",
                                        "tokenizer_config.json",
                                        "special_tokens_map.json",
                                        "tokenizer.model",
                                        "vocab.json",
                                        "merges.txt",
                                        "added_tokens.json",
                                        "chat_template.jinja",
                                        "generation_config.json"};

// SplitMix64's mixing of a counter: a draw is a pure function of its coordinates.
uint64_t Mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

uint64_t HashName(absl::string_view name) {  // FNV-1a
  uint64_t hash = 0xCBF29CE484222325u;
  for (const char c : name)
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  return hash;
}

float NormalDraw(uint64_t key, uint64_t element) {  // Box and Muller
  const uint64_t a = Mix(key ^ Mix(2 * element)), b = Mix(key ^ Mix(2 * element + 1));
  const double u = (static_cast<double>(a >> 11) + 0.5) * 0x1p-53;
  const double v = static_cast<double>(b >> 11) * 0x1p-53;
  return static_cast<float>(std::sqrt(-2 * std::log(u)) *
                            std::cos(2 * std::numbers::pi * v));
}

std::vector<StoredTensorSpec> StoredTensors(const ModelShape& model) {
  std::vector<StoredTensorSpec> specs;
  for (const auto& layer : model.layers) {
    for (const TensorSpec& tensor : layer->tensors()) {
      specs.push_back({tensor.name, StoredTypeOf(model.dtype), tensor.shape});
    }
  }
  return specs;
}

absl::Status CopyTokenizer(const std::string& source, const std::string& target) {
  for (const char* name : kTokenizerFiles) {
    std::error_code error;
    const fs::path from = fs::path(source) / name, to = fs::path(target) / name;
    if (!fs::exists(from, error)) continue;
    STRATA_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(from.string()));
    STRATA_RETURN_IF_ERROR(WriteTextFile(to.string(), text));
  }
  return absl::OkStatus();
}

}  // namespace

TensorReader ReadFrom(const HfCheckpoint& checkpoint) {
  return
      [&checkpoint](const TensorSpec& tensor, int64_t first, std::span<float> values) {
        const TensorSource* source = checkpoint.Find(tensor.name);
        if (source == nullptr) {
          return absl::InvalidArgumentError(absl::StrCat(
              checkpoint.directory(), ": tensor '", tensor.name, "' is missing"));
        }
        return ReadFloats(*source->file, *source->info, first, values);
      };
}

TensorReader RandomWeights(uint64_t seed) {
  return [seed](const TensorSpec& tensor, int64_t first, std::span<float> values) {
    const uint64_t key = Mix(seed ^ HashName(tensor.name));
    const bool bias = absl::EndsWith(tensor.name, ".bias");
    const bool norm = tensor.shape.size() == 1 && !bias;
    const auto fill = [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) {
        values[i] = bias   ? 0.0f
                    : norm ? 1.0f
                           : 0.02f * NormalDraw(key, static_cast<uint64_t>(first) + i);
      }
    };
    // Draws depend on nothing but their element, so threads may share them out;
    // billions of logarithms take minutes on one.
    constexpr size_t kShare = 1 << 18;  // elements
    const size_t threads = std::min<size_t>(
        std::max(1u, std::thread::hardware_concurrency()), values.size() / kShare + 1);
    std::vector<std::thread> workers;
    for (size_t t = 1; t < threads; ++t) {
      workers.emplace_back(fill, values.size() * t / threads,
                           values.size() * (t + 1) / threads);
    }
    fill(0, values.size() / threads);
    for (std::thread& worker : workers) worker.join();
    return absl::OkStatus();
  };
}

absl::Status ExportConfig(const HfConfig& config, DType dtype,
                          absl::string_view source_directory,
                          absl::string_view directory) {
  STRATA_ASSIGN_OR_RETURN(const std::string json, ExportHfConfig(config, dtype));
  STRATA_RETURN_IF_ERROR(WriteTextFile(absl::StrCat(directory, "/config.json"), json));
  if (source_directory.empty() || source_directory == directory)
    return absl::OkStatus();
  return CopyTokenizer(std::string(source_directory), std::string(directory));
}

absl::Status ExportModel(Trainer& trainer, const HfConfig& config,
                         absl::string_view source_directory,
                         absl::string_view directory) {
  const std::string target(directory);
  std::error_code error;
  fs::create_directories(target, error);
  if (error) return IoError(error.value(), absl::StrCat("create ", target));
  const StoredType type = StoredTypeOf(trainer.model().dtype);
  STRATA_ASSIGN_OR_RETURN(
      const std::unique_ptr<SafetensorsWriter> writer,
      SafetensorsWriter::Create(absl::StrCat(target, "/model.safetensors"),
                                StoredTensors(trainer.model()), {{"format", "pt"}}));
  std::vector<std::byte> bytes;
  STRATA_RETURN_IF_ERROR(trainer.ReadWeights(
      [&](const TensorSpec& tensor, int64_t, std::span<const float> values) {
        bytes.resize(values.size() * static_cast<size_t>(SizeOf(type)));
        StoredFromFloats(type, values, bytes);
        return writer->Append(tensor.name, bytes);
      }));
  STRATA_RETURN_IF_ERROR(writer->Finish());
  return ExportConfig(config, trainer.model().dtype, source_directory, directory);
}

}  // namespace strata
