#include "tests/support/fixture_t0.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>

#include "model/safetensors_writer.h"
#include "model/stored_floats.h"
#include "runtime/base/status.h"

namespace strata {
namespace {

uint32_t Fnv1a(absl::string_view text) {
  uint32_t hash = 0x811C9DC5;
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x01000193;
  return hash;
}

uint32_t Hash(uint32_t index, uint32_t stream) {
  uint32_t x = index * 0x9E3779B1 + stream * 0x85EBCA77 + 0x165667B1;
  x ^= x >> 16;
  x *= 0x7FEB352D;
  x ^= x >> 15;
  x *= 0x846CA68B;
  return x ^ x >> 16;
}

nlohmann::ordered_json RopeScaling(const RopeConfig& rope) {
  if (rope.type == RopeType::kDefault) return nullptr;
  if (rope.type == RopeType::kLinear) {
    return {{"rope_type", "linear"}, {"factor", rope.factor}};
  }
  return {{"rope_type", "llama3"},
          {"factor", rope.factor},
          {"low_freq_factor", rope.low_freq_factor},
          {"high_freq_factor", rope.high_freq_factor},
          {"original_max_position_embeddings", rope.original_max_position}};
}

absl::Status WriteText(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  return file ? absl::OkStatus() : IoError(EIO, absl::StrCat("write ", path));
}

absl::Status WriteShard(const std::string& path, std::span<const TensorShape> tensors,
                        StoredType type) {
  std::vector<StoredTensorSpec> specs;
  for (const TensorShape& tensor : tensors) {
    specs.push_back({tensor.name, type, tensor.shape});
  }
  STRATA_ASSIGN_OR_RETURN(auto writer,
                          SafetensorsWriter::Create(path, specs, {{"format", "pt"}}));
  for (const TensorShape& tensor : tensors) {
    const std::vector<float> values = FixtureTensor(tensor);
    std::vector<std::byte> bytes(values.size() * static_cast<size_t>(SizeOf(type)));
    StoredFromFloats(type, values, bytes);
    STRATA_RETURN_IF_ERROR(writer->Append(tensor.name, bytes));
  }
  return writer->Finish();
}

}  // namespace

TransformerConfig FixtureT0() {
  return {.vocab = 67,
          .hidden = 32,
          .intermediate = 48,
          .layers = 2,
          .heads = 4,
          .kv_heads = 2,
          .head_dim = 8,
          .rms_norm_eps = 1e-5,
          .max_position = 64};
}

std::vector<float> FixtureTensor(const TensorShape& tensor) {
  int64_t count = 1;
  for (int64_t extent : tensor.shape) count *= extent;
  const uint32_t stream = Fnv1a(tensor.name);
  const bool is_norm =
      tensor.shape.size() == 1 && !absl::EndsWith(tensor.name, ".bias");
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    const double r = Hash(static_cast<uint32_t>(i), stream) / 4294967296.0 - 0.5;
    values[i] = static_cast<float>(is_norm ? 1 + 0.4 * r : 0.5 * r);
  }
  return values;
}

std::vector<int32_t> FixtureSequence(int sequence, int64_t length, int64_t vocab) {
  std::vector<int32_t> tokens(static_cast<size_t>(length));
  for (size_t j = 0; j < tokens.size(); ++j) {
    const uint32_t stream = 1000 + static_cast<uint32_t>(sequence);
    tokens[j] = static_cast<int32_t>(Hash(static_cast<uint32_t>(j), stream) % vocab);
  }
  return tokens;
}

std::string FixtureConfigJson(const TransformerConfig& config) {
  const char* dtype = config.dtype == DType::kF32    ? "float32"
                      : config.dtype == DType::kBF16 ? "bfloat16"
                                                     : "float16";
  const nlohmann::ordered_json json = {{"architectures", {"LlamaForCausalLM"}},
                                       {"model_type", "llama"},
                                       {"vocab_size", config.vocab},
                                       {"hidden_size", config.hidden},
                                       {"intermediate_size", config.intermediate},
                                       {"num_hidden_layers", config.layers},
                                       {"num_attention_heads", config.heads},
                                       {"num_key_value_heads", config.kv_heads},
                                       {"head_dim", config.head_dim},
                                       {"hidden_act", "silu"},
                                       {"rms_norm_eps", config.rms_norm_eps},
                                       {"rope_theta", config.rope.theta},
                                       {"rope_scaling", RopeScaling(config.rope)},
                                       {"max_position_embeddings", config.max_position},
                                       {"tie_word_embeddings", config.tied},
                                       {"attention_bias", false},
                                       {"mlp_bias", false},
                                       {"bos_token_id", 1},
                                       {"eos_token_id", 2},
                                       {"initializer_range", 0.02},
                                       {"torch_dtype", dtype}};
  return json.dump(1);
}

absl::Status WriteFixture(absl::string_view directory, const TransformerConfig& config,
                          const std::string& config_json) {
  STRATA_RETURN_IF_ERROR(WriteFixture(directory, config, 1));
  return WriteText(absl::StrCat(directory, "/config.json"), config_json);
}

absl::Status WriteFixture(absl::string_view directory, const TransformerConfig& config,
                          int shards) {
  const std::string folder(directory);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return IoError(error.value(), absl::StrCat("create ", directory));
  STRATA_RETURN_IF_ERROR(WriteText(folder + "/config.json", FixtureConfigJson(config)));
  const std::vector<TensorShape> tensors = TensorsOf(config);
  const StoredType type = StoredTypeOf(config.dtype);
  if (shards == 1) return WriteShard(folder + "/model.safetensors", tensors, type);

  const size_t per_shard = (tensors.size() + shards - 1) / shards;
  nlohmann::ordered_json index = {{"metadata", {{"total_size", 0}}}};
  int64_t total_bytes = 0;
  for (int shard = 0; shard < shards; ++shard) {
    const std::string name =
        absl::StrFormat("model-%05d-of-%05d.safetensors", shard + 1, shards);
    const size_t first = std::min(tensors.size(), shard * per_shard);
    const size_t count = std::min(per_shard, tensors.size() - first);
    const std::span<const TensorShape> part(tensors.data() + first, count);
    STRATA_RETURN_IF_ERROR(WriteShard(absl::StrCat(folder, "/", name), part, type));
    for (const TensorShape& tensor : part) {
      index["weight_map"][tensor.name] = name;
      total_bytes += *BytesOf(type, tensor.shape);
    }
  }
  index["metadata"]["total_size"] = total_bytes;
  return WriteText(folder + "/model.safetensors.index.json", index.dump(1));
}

}  // namespace strata
