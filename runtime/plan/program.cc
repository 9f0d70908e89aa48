#include "runtime/plan/program.h"

#include <algorithm>
#include <array>
#include <deque>

#include "runtime/base/status.h"

namespace strata {

VirtualOp& VirtualOp::Read(Operand operand, Place place, int64_t size_bytes,
                           Value value, int64_t value_offset) {
  accesses.push_back(
      {operand, AccessMode::kRead, place, size_bytes, value, value_offset});
  return *this;
}

VirtualOp& VirtualOp::Write(Operand operand, Place place, int64_t size_bytes,
                            Value value, int64_t value_offset) {
  accesses.push_back(
      {operand, AccessMode::kWrite, place, size_bytes, value, value_offset});
  return *this;
}

VirtualOp Transfer(OpCode code, Lane lane, const Piece& piece, Place source,
                   Place target) {
  VirtualOp transfer{{.code = code,
                      .lane = lane,
                      .layer = piece.value.layer,
                      .micro_batch = piece.micro_batch,
                      .slice = piece.slice},
                     {}};
  transfer
      .Read(Operand::kSource, source, piece.size_bytes, piece.value, piece.value_offset)
      .Write(Operand::kTarget, target, piece.size_bytes, piece.value,
             piece.value_offset);
  return transfer;
}

int32_t Program::NewBuffer(TierKind tier, int64_t size_bytes, Pool pool) {
  buffers_.push_back({tier, pool, size_bytes});
  return static_cast<int32_t>(buffers_.size()) - 1;
}

int32_t Program::AddLoad(VirtualOp op, int32_t after_load, Place source, Place target) {
  LoadStep load{std::move(op), static_cast<int32_t>(items_.size()) - 1, -1, after_load,
                target.buffer};
  const auto written = written_by_item_.find(Where(source));
  if (written != written_by_item_.end()) load.after_item = written->second;
  // What this item itself has stored is already in its list of operations.
  STRATA_CHECK(load.after_item < load.item);
  loads_.push_back(std::move(load));
  return static_cast<int32_t>(loads_.size()) - 1;
}

void Program::Load(const Piece& piece, Place source, Place target) {
  if (source.tier == TierKind::kNvme && target.tier == TierKind::kDevice) {
    const Place stage = New(TierKind::kHost, piece.size_bytes, Pool::kStageIn);
    const int32_t read =
        AddLoad(Transfer(OpCode::kRead, Lane::kNvmeRead, piece, source, stage), -1,
                source, stage);
    AddLoad(Transfer(OpCode::kCopy, Lane::kHostToDevice, piece, stage, target), read,
            stage, target);
  } else if (source.tier == TierKind::kNvme) {
    AddLoad(Transfer(OpCode::kRead, Lane::kNvmeRead, piece, source, target), -1, source,
            target);
  } else {
    STRATA_CHECK(source.tier == TierKind::kHost && target.tier == TierKind::kDevice);
    AddLoad(Transfer(OpCode::kCopy, Lane::kHostToDevice, piece, source, target), -1,
            source, target);
  }
}

void Program::Do(VirtualOp op) {
  for (const VirtualAccess& access : op.accesses) {
    if (access.mode != AccessMode::kWrite) continue;
    written_by_item_[Where(access.place)] = static_cast<int32_t>(items_.size()) - 1;
  }
  items_.back().ops.push_back(std::move(op));
}

void Program::Store(const Piece& piece, Place source, Place target) {
  if (source.tier == TierKind::kDevice && target.tier == TierKind::kNvme) {
    const Place stage = New(TierKind::kHost, piece.size_bytes, Pool::kStageOut);
    Do(Transfer(OpCode::kCopy, Lane::kDeviceToHost, piece, source, stage));
    Do(Transfer(OpCode::kWrite, Lane::kNvmeWrite, piece, stage, target));
  } else if (source.tier == TierKind::kHost && target.tier == TierKind::kNvme) {
    Do(Transfer(OpCode::kWrite, Lane::kNvmeWrite, piece, source, target));
  } else if (source.tier == TierKind::kHost && target.tier == TierKind::kHost) {
    Do(Transfer(OpCode::kCopy, Lane::kCpu, piece, source, target));
  } else {
    STRATA_CHECK(source.tier == TierKind::kDevice && target.tier == TierKind::kHost);
    Do(Transfer(OpCode::kCopy, Lane::kDeviceToHost, piece, source, target));
  }
}

/// Emits items in order; before each one, every load that may stand there.
class Program::Scheduler {
 public:
  Scheduler(Program& program, const std::vector<int32_t>& slots)
      : program_(program),
        slots_(slots),
        emitted_(program.loads_.size(), false),
        acquired_(program.buffers_.size(), false),
        uses_left_(program.buffers_.size(), 0) {
    for (const LoadStep& load : program.loads_) CountUses(load.op);
    for (const Item& item : program.items_) {
      for (const VirtualOp& op : item.ops) CountUses(op);
    }
    for (size_t i = 0; i < program.loads_.size(); ++i) {
      queues_[PoolOf(program.loads_[i])].push_back(static_cast<int32_t>(i));
    }
  }

  std::vector<VirtualOp> Run() {
    for (int32_t item = 0; item < static_cast<int32_t>(program_.items_.size());
         ++item) {
      EmitRequired(item);
      EmitEarly(item);
      for (VirtualOp& op : program_.items_[item].ops) Emit(std::move(op));
    }
    return std::move(list_);
  }

 private:
  size_t PoolOf(const LoadStep& load) const {
    return load.target_buffer < 0
               ? 0
               : static_cast<size_t>(program_.buffers_[load.target_buffer].pool);
  }
  void CountUses(const VirtualOp& op) {
    for (const VirtualAccess& access : op.accesses) {
      if (access.place.buffer >= 0) ++uses_left_[access.place.buffer];
    }
  }

  // Loads of this item that did not get an early place. Stage reads come before the
  // copies that need them, because they come first in program order.
  void EmitRequired(int32_t item) {
    bool progress = true;
    while (progress) {
      progress = false;
      for (auto& queue : queues_) {
        while (!queue.empty() && program_.loads_[queue.front()].item <= item) {
          const int32_t before = program_.loads_[queue.front()].after_load;
          if (before >= 0 && !emitted_[before]) break;
          EmitFront(queue);
          progress = true;
        }
      }
    }
  }

  // Of all pools' next loads that may be emitted now, the one that is needed first.
  void EmitEarly(int32_t item) {
    while (true) {
      std::deque<int32_t>* best = nullptr;
      for (auto& queue : queues_) {
        if (queue.empty() || !MayEmit(program_.loads_[queue.front()], item)) continue;
        if (best == nullptr || queue.front() < best->front()) best = &queue;
      }
      if (best == nullptr) return;
      EmitFront(*best);
    }
  }

  bool MayEmit(const LoadStep& load, int32_t item) const {
    if (load.after_item >= item) return false;
    if (load.after_load >= 0 && !emitted_[load.after_load]) return false;
    const size_t pool = PoolOf(load);
    return load.target_buffer < 0 || acquired_[load.target_buffer] ||
           slots_[pool] == 0 || live_[pool] < slots_[pool];
  }

  void EmitFront(std::deque<int32_t>& queue) {
    emitted_[queue.front()] = true;
    const int32_t load = queue.front();
    queue.pop_front();
    Emit(std::move(program_.loads_[load].op));
  }

  void Emit(VirtualOp op) {
    const int32_t position = static_cast<int32_t>(list_.size());
    for (const VirtualAccess& access : op.accesses) {
      if (access.place.buffer < 0) continue;
      VirtualBuffer& buffer = program_.buffers_[access.place.buffer];
      if (!acquired_[access.place.buffer]) {
        acquired_[access.place.buffer] = true;
        buffer.first_use = position;
        ++live_[static_cast<size_t>(buffer.pool)];
      }
      buffer.last_use = position;
      if (--uses_left_[access.place.buffer] == 0) {
        --live_[static_cast<size_t>(buffer.pool)];
      }
    }
    list_.push_back(std::move(op));
  }

  Program& program_;
  const std::vector<int32_t>& slots_;
  std::array<std::deque<int32_t>, kPoolCount> queues_;  // loads not yet emitted
  std::array<int32_t, kPoolCount> live_{};
  std::vector<bool> emitted_;   // by load
  std::vector<bool> acquired_;  // by buffer
  std::vector<int32_t> uses_left_;
  std::vector<VirtualOp> list_;
};

std::vector<VirtualOp> Program::Schedule(const std::vector<int32_t>& slots) {
  return Scheduler(*this, slots).Run();
}

}  // namespace strata
