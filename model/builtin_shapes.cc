#include "model/transformer_config.h"

namespace strata {
namespace {

struct NamedShape {
  const char* name;
  TransformerConfig config;
};

TransformerConfig Llama(int64_t vocab, int64_t hidden, int64_t intermediate,
                        int64_t layers, int64_t heads) {
  return {.vocab = vocab,
          .hidden = hidden,
          .intermediate = intermediate,
          .layers = layers,
          .heads = heads,
          .kv_heads = heads,
          .head_dim = hidden / heads,
          .rms_norm_eps = 1e-5,
          .max_position = 4096,
          .dtype = DType::kBF16};
}

TransformerConfig Llama3(TransformerConfig config, double rope_factor) {
  config.kv_heads = 8;
  config.max_position = 131072;
  config.rope = {.theta = 500000,
                 .type = RopeType::kLlama3,
                 .factor = rope_factor,
                 .low_freq_factor = 1,
                 .high_freq_factor = 4,
                 .original_max_position = 8192};
  return config;
}

TransformerConfig SmolLm2(TransformerConfig config, int64_t kv_heads, double theta) {
  config.kv_heads = kv_heads;
  config.max_position = 8192;
  config.rope.theta = theta;
  config.tied = true;
  return config;
}

const std::vector<NamedShape>& Shapes() {
  static const auto* const shapes = new std::vector<NamedShape>([] {
    TransformerConfig llama2_70b = Llama(32000, 8192, 28672, 80, 64);
    llama2_70b.kv_heads = 8;
    TransformerConfig llama32_1b = Llama3(Llama(128256, 2048, 8192, 16, 32), 32);
    llama32_1b.tied = true;
    TransformerConfig llama32_3b = Llama3(Llama(128256, 3072, 8192, 28, 24), 32);
    llama32_3b.tied = true;
    TransformerConfig tiny_llama = Llama(32000, 2048, 5632, 22, 32);
    tiny_llama.kv_heads = 4;
    tiny_llama.max_position = 2048;
    TransformerConfig open_llama = Llama(32000, 3200, 8640, 26, 32);
    open_llama.rms_norm_eps = 1e-6;
    open_llama.max_position = 2048;
    return std::vector<NamedShape>{
        {"llama-2-7b", Llama(32000, 4096, 11008, 32, 32)},
        {"llama-2-13b", Llama(32000, 5120, 13824, 40, 40)},
        {"llama-2-70b", llama2_70b},
        {"llama-3.1-8b", Llama3(Llama(128256, 4096, 14336, 32, 32), 8)},
        {"llama-3.1-70b", Llama3(Llama(128256, 8192, 28672, 80, 64), 8)},
        {"llama-3.2-1b", llama32_1b},
        {"llama-3.2-3b", llama32_3b},
        {"tinyllama-1.1b", tiny_llama},
        {"open-llama-3b", open_llama},
        {"smollm2-135m", SmolLm2(Llama(49152, 576, 1536, 30, 9), 3, 100000)},
        {"smollm2-360m", SmolLm2(Llama(49152, 960, 2560, 32, 15), 5, 100000)},
        {"smollm2-1.7b", SmolLm2(Llama(49152, 2048, 8192, 24, 32), 32, 130000)}};
  }());
  return *shapes;
}

}  // namespace

std::optional<TransformerConfig> BuiltinShape(absl::string_view name) {
  for (const NamedShape& shape : Shapes()) {
    if (name == shape.name) return shape.config;
  }
  return std::nullopt;
}

std::vector<std::string> BuiltinShapeNames() {
  std::vector<std::string> names;
  for (const NamedShape& shape : Shapes()) names.emplace_back(shape.name);
  return names;
}

}  // namespace strata
