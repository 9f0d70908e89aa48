#include "tests/support/list_reference.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "runtime/base/status.h"

namespace strata {
namespace {

uint64_t Mix(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
  return hash ^ (hash >> 29);
}

// A range is hashed as far as whole words go; all but the smallest are whole.
uint64_t HashRange(uint64_t hash, const std::byte* data, int64_t size_bytes) {
  for (int64_t i = 0; i + 8 <= size_bytes; i += 8) {
    uint64_t word;
    std::memcpy(&word, data + i, 8);
    hash = Mix(hash, word);
  }
  return hash;
}

void FillRange(uint64_t seed, std::byte* data, int64_t size_bytes) {
  for (int64_t i = 0; i + 8 <= size_bytes; i += 8) {
    const uint64_t word = (seed + static_cast<uint64_t>(i)) * 0xbf58476d1ce4e5b9u;
    std::memcpy(data + i, &word, 8);
  }
}

template <typename AddressOf>
void ComputeHashes(const Plan& plan, const Op& op, AddressOf address_of) {
  uint64_t hash = static_cast<uint64_t>(op.code) + 1;
  for (const int32_t part : {op.layer, op.micro_batch, op.slice}) {
    hash = Mix(hash, static_cast<uint64_t>(part + 1));
  }
  for (const Access& access : plan.Accesses(op)) {
    if (access.mode != AccessMode::kRead) continue;
    hash = Mix(hash, static_cast<uint64_t>(access.operand));
    hash = HashRange(hash, address_of(access), access.size_bytes);
  }
  for (const Access& access : plan.Accesses(op)) {
    if (access.mode != AccessMode::kWrite) continue;
    FillRange(Mix(hash, static_cast<uint64_t>(access.operand)), address_of(access),
              access.size_bytes);
  }
}

bool IsTransfer(const Op& op) {
  return op.code == OpCode::kCopy || op.code == OpCode::kRead ||
         op.code == OpCode::kWrite;
}

bool IsHome(Role role) {
  return role == Role::kWeight || role == Role::kState || role == Role::kGradient ||
         role == Role::kSpeculated;
}

}  // namespace

absl::Status HashRunner::Run(const OpCall& call, Stream&) {
  ComputeHashes(call.plan, call.op,
                [&call](const Access& access) { return call.At(access.operand); });
  return absl::OkStatus();
}

ListReference::ListReference(const PlanSet& set) : set_(set) {
  for (int tier = 0; tier < kTierCount; ++tier) {
    tiers_[tier].resize(
        static_cast<size_t>(set.arena_bytes[static_cast<TierKind>(tier)]));
  }
  for (const Plan& plan : set.plans) {
    for (const Access& access : plan.accesses) {
      const Extent extent{access.tier, access.offset, access.size_bytes};
      if (access.tier == TierKind::kNvme && IsHome(access.value.role) &&
          std::find(nvme_homes_.begin(), nvme_homes_.end(), extent) ==
              nvme_homes_.end()) {
        nvme_homes_.push_back(extent);
      }
    }
  }
}

absl::Status ListReference::Fill(std::mt19937& random, Executor& executor) {
  std::vector<Extent> extents = nvme_homes_;
  extents.push_back({TierKind::kHost, 0, set_.arena_bytes.host});
  extents.push_back({TierKind::kDevice, 0, set_.arena_bytes.device});
  for (const Extent& extent : extents) {
    std::byte* const data = tiers_[static_cast<size_t>(extent.tier)].data();
    const std::span<std::byte> bytes(data + extent.offset,
                                     static_cast<size_t>(extent.size_bytes));
    FillRange(random(), bytes.data(), extent.size_bytes);
    STRATA_RETURN_IF_ERROR(executor.WriteHome(extent, bytes));
  }
  return absl::OkStatus();
}

void ListReference::Run(int32_t plan_index) {
  const Plan& plan = set_.plans[static_cast<size_t>(plan_index)];
  for (const Op& op : plan.ops) {
    if (!IsTransfer(op)) {
      ComputeHashes(plan, op, [this](const Access& access) { return Address(access); });
      continue;
    }
    const auto accesses = plan.Accesses(op);
    STRATA_CHECK(accesses.size() == 2);
    const Access& first = accesses[0];
    const bool first_is_source = first.operand == Operand::kSource;
    std::memcpy(Address(first_is_source ? accesses[1] : first),
                Address(first_is_source ? first : accesses[1]),
                static_cast<size_t>(first.size_bytes));
  }
}

absl::Status ListReference::Compare(Executor& executor) const {
  std::vector<Extent> extents = nvme_homes_;
  extents.push_back({TierKind::kHost, 0, set_.arena_bytes.host});
  extents.push_back({TierKind::kDevice, 0, set_.arena_bytes.device});
  for (const Extent& extent : extents) {
    std::vector<std::byte> found(static_cast<size_t>(extent.size_bytes));
    STRATA_RETURN_IF_ERROR(executor.ReadHome(extent, found));
    const std::byte* const expected =
        tiers_[static_cast<size_t>(extent.tier)].data() + extent.offset;
    const auto differs = std::mismatch(found.begin(), found.end(), expected).first;
    if (differs == found.end()) continue;
    return absl::InternalError(absl::StrCat(Name(extent.tier),
                                            " differs from list order at byte ",
                                            extent.offset + (differs - found.begin())));
  }
  return absl::OkStatus();
}

std::byte* ListReference::Address(const Access& access) {
  return tiers_[static_cast<size_t>(access.tier)].data() + access.offset;
}

}  // namespace strata
