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

TransformerConfig Mistral(int64_t vocab, double theta, int64_t max_position) {
  TransformerConfig config = Llama(vocab, 4096, 14336, 32, 32);
  config.kv_heads = 8;
  config.rope.theta = theta;
  config.max_position = max_position;
  return config;
}

TransformerConfig Qwen(TransformerConfig config, int64_t kv_heads) {
  config.kv_heads = kv_heads;
  config.rms_norm_eps = 1e-6;
  config.rope.theta = 1000000;
  config.max_position = 32768;
  return config;
}

TransformerConfig Qwen25(TransformerConfig config, int64_t kv_heads) {
  config = Qwen(config, kv_heads);
  config.qkv_bias = true;
  config.tied = config.hidden <= 2048;
  return config;
}

TransformerConfig Qwen3(TransformerConfig config) {
  config = Qwen(config, 8);
  config.max_position = 40960;
  config.head_dim = 128;
  config.qk_norm = true;
  config.tied = config.hidden <= 2560;
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
    TransformerConfig mistral_01 = Mistral(32000, 10000, 32768);
    mistral_01.sliding_window = 4096;
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
        {"mistral-7b-v0.1", mistral_01},
        {"mistral-7b", Mistral(32768, 1000000, 32768)},
        {"qwen2.5-0.5b", Qwen25(Llama(151936, 896, 4864, 24, 14), 2)},
        {"qwen2.5-1.5b", Qwen25(Llama(151936, 1536, 8960, 28, 12), 2)},
        {"qwen2.5-3b", Qwen25(Llama(151936, 2048, 11008, 36, 16), 2)},
        {"qwen2.5-7b", Qwen25(Llama(152064, 3584, 18944, 28, 28), 4)},
        {"qwen2.5-14b", Qwen25(Llama(152064, 5120, 13824, 48, 40), 8)},
        {"qwen2.5-32b", Qwen25(Llama(152064, 5120, 27648, 64, 40), 8)},
        {"qwen2.5-72b", Qwen25(Llama(152064, 8192, 29568, 80, 64), 8)},
        {"qwen3-0.6b", Qwen3(Llama(151936, 1024, 3072, 28, 16))},
        {"qwen3-1.7b", Qwen3(Llama(151936, 2048, 6144, 28, 16))},
        {"qwen3-4b", Qwen3(Llama(151936, 2560, 9728, 36, 32))},
        {"qwen3-8b", Qwen3(Llama(151936, 4096, 12288, 36, 32))},
        {"qwen3-14b", Qwen3(Llama(151936, 5120, 17408, 40, 40))},
        {"qwen3-32b", Qwen3(Llama(151936, 5120, 25600, 64, 64))},
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
