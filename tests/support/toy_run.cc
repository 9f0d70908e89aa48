#include "tests/support/toy_run.h"

#include <cmath>
#include <cstring>
#include <random>

#include "runtime/device/cpu_device.h"
#include "tests/support/memory_store.h"
#include "tests/support/random_plans.h"

namespace strata {
namespace {

constexpr int64_t kAmple = int64_t{1} << 40;

TensorWriter Into(Tensors& tensors) {
  return [&tensors](const TensorSpec& tensor, int64_t first,
                    std::span<const float> values) {
    auto& target = tensors[tensor.name];
    EXPECT_EQ(static_cast<int64_t>(target.size()), first);
    target.insert(target.end(), values.begin(), values.end());
    return absl::OkStatus();
  };
}

}  // namespace

void ExpectEqual(const Trace& a, const Trace& b) {
  ASSERT_EQ(a.numbers.size(), b.numbers.size());
  for (size_t i = 0; i < a.numbers.size(); ++i) {
    ASSERT_TRUE(a.numbers[i] == b.numbers[i] ||
                (std::isnan(a.numbers[i]) && std::isnan(b.numbers[i])))
        << "number " << i << ": " << a.numbers[i] << " and " << b.numbers[i];
  }
  EXPECT_EQ(a.clipped, b.clipped);
  EXPECT_EQ(a.skipped, b.skipped);
  for (const auto member :
       {&Trace::weights, &Trace::masters, &Trace::moments1, &Trace::moments2}) {
    ASSERT_EQ((a.*member).size(), (b.*member).size());
    for (const auto& [name, values] : a.*member) {
      const auto& other = (b.*member).at(name);
      ASSERT_EQ(values.size(), other.size()) << name;
      ASSERT_EQ(std::memcmp(values.data(), other.data(), values.size() * sizeof(float)),
                0)
          << name;
    }
  }
}

double LearningRateOf(int step) { return 1e-3 * std::min(1.0, (step + 1) / 10.0); }

std::vector<Batch> BatchesOf(const ModelShape& model, const Scenario& scenario,
                             int step) {
  const int32_t count = step % 7 == 3 ? 1 : model.micro_batches;
  std::vector<Batch> batches;
  for (int32_t m = 0; m < count; ++m) {
    const bool poisoned =
        scenario.optimizer.max_grad_norm > 0 && step % 11 == 5 && m == 0;
    batches.push_back(ToyBatch(model, static_cast<uint32_t>(100 * step + m),
                               step == 20 ? 0.0
                               : m == 1   ? 0.3
                                          : 0.9,
                               poisoned));
  }
  return batches;
}

ToyTrainer MakeToyTrainer(const Scenario& scenario, uint32_t seed) {
  return MakeToyTrainer(
      scenario, seed,
      [](const StoreNeeds& needs) -> absl::StatusOr<std::unique_ptr<Store>> {
        return std::make_unique<MemoryStore>(needs.capacity_bytes,
                                             MemoryStore::Mode::kImmediate);
      });
}

ToyTrainer MakeToyTrainer(const Scenario& scenario, uint32_t seed,
                          const MakeStore& make_store) {
  std::mt19937 random(seed);
  ToyTrainer toy;
  toy.device = CreateCpuDevice({.device_bytes = kAmple, .pinned_host_bytes = kAmple});
  TrainerOptions options;
  options.optimizer = scenario.optimizer;
  options.budgets = {kAmple, kAmple, kAmple};
  options.partial_steps = {1};
  options.evaluates = true;
  options.device = options.host_device = toy.device.get();
  options.make_store = make_store;
  ModelShape model = ToyModel(scenario.toy);
  const auto kernels = CreateKernels(DeviceKind::kCpu, {});
  options.overrides.decisions =
      RandomDecisions(random, TraceStep(model, (*kernels)->matmul_workspace_bytes(),
                                        scenario.optimizer.max_grad_norm > 0, 0, 1));
  auto trainer = Trainer::Create(std::move(model), options);
  EXPECT_TRUE(trainer.ok()) << trainer.status();
  if (trainer.ok()) toy.trainer = *std::move(trainer);
  return toy;
}

void Collect(Trainer& trainer, Trace& trace) {
  EXPECT_TRUE(trainer.ReadWeights(Into(trace.weights)).ok());
  EXPECT_TRUE(trainer.ReadState(StateKind::kMaster, Into(trace.masters)).ok());
  EXPECT_TRUE(trainer.ReadState(StateKind::kMoment1, Into(trace.moments1)).ok());
  EXPECT_TRUE(trainer.ReadState(StateKind::kMoment2, Into(trace.moments2)).ok());
}

}  // namespace strata
