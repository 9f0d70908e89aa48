/// How long it takes to plan, verify and simulate a step: what a user waits for before
/// the first one.

#include <benchmark/benchmark.h>

#include "model/transformer_config.h"
#include "model/llama.h"
#include "model/trainer.h"
#include "runtime/base/status.h"
#include "runtime/plan/machine_profile_json.h"
#include "runtime/plan/simulator.h"
#include "runtime/plan/verifier.h"

namespace strata {
namespace {

constexpr int64_t kWorkspaceBytes = 32 * kMiB;

struct Question {
  ModelShape model;
  TrainerOptions options;
};

Question Ask(const char* name, int64_t device_bytes) {
  const auto shape = BuiltinShape(name);
  STRATA_CHECK(shape.has_value());
  Question question;
  auto layers = BuildLlama(*shape, DType::kBF16, LlamaOptions());
  STRATA_CHECK(layers.ok());
  question.model.layers = *std::move(layers);
  question.model.micro_batch = {2, 2048};
  question.model.micro_batches = 4;
  question.model.dtype = DType::kBF16;
  question.options.optimizer.max_grad_norm = 1;
  question.options.profile = FindKnownMachine("h200")->profile;
  question.options.budgets = {
      .device_bytes = device_bytes, .host_bytes = 128 * kGiB, .nvme_bytes = 512 * kGiB};
  return question;
}

void Plan(benchmark::State& state, const char* name) {
  const Question question = Ask(name, state.range(0) * kGiB);
  for (auto _ : state) {
    const auto plan = PlanTraining(question.model, question.options, kWorkspaceBytes);
    STRATA_CHECK(plan.ok());
    state.counters["operations"] =
        static_cast<double>(plan->set.plans.front().ops.size());
  }
}

void SimulateSteady(benchmark::State& state, const char* name) {
  const Question question = Ask(name, state.range(0) * kGiB);
  const auto plan = PlanTraining(question.model, question.options, kWorkspaceBytes);
  STRATA_CHECK(plan.ok());
  const int32_t first = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        Simulate(plan->set, {&first, 1}, question.options.profile));
  }
}

BENCHMARK_CAPTURE(Plan, llama_2_7b, "llama-2-7b")
    ->Arg(16)
    ->Arg(24)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Plan, llama_2_13b, "llama-2-13b")
    ->Arg(24)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(SimulateSteady, llama_2_7b, "llama-2-7b")
    ->Arg(24)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace strata

BENCHMARK_MAIN();
