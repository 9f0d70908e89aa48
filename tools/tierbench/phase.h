/// What one measurement found, whatever it measured: a row of the table and an element
/// of `phases` in the JSON.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/tierbench/statistics.h"

namespace strata {

/// Bytes per second.
struct Rates {
  double median = 0;  // of loops
  double min = 0;
  double max = 0;
  double worst_1s = 0;  // the slowest second, or the slowest loop if loops are shorter
};

struct IoCounters {
  int64_t short_count = 0;  // transfers that the kernel cut short
  int64_t retry_count = 0;
  int64_t kernel_workers_max = 0;        // io_uring's own threads: a slow path
  double device_requests_per_chunk = 0;  // 0: the drive does not count them
};

struct Phase {
  std::string name;   // "read", "host_to_device", "matmul qkv"
  std::string label;  // in the table
  nlohmann::ordered_json params = nlohmann::ordered_json::object();
  double bytes = 0;    // moved or touched
  double seconds = 0;  // of measuring
  Rates rate;
  double flop_per_second = 0;      // of arithmetic
  double elements_per_second = 0;  // of optimizer updates
  std::vector<double> samples;     // bytes per second, one for each loop
  Latencies shard_latency, chunk_latency;
  double cpu_seconds_per_gib = 0;  // this process, user and system; 0: not measured
  double system_cpu_seconds_per_gib = 0;
  IoCounters io;
  std::vector<std::string> notes;  // shown below the table
  double variation = 0;            // coefficient of variation of the samples

  bool is_stable() const { return variation <= 0.15; }
};

/// Fills in rate, samples and variation from rates of loops.
void SetSamples(Phase& phase, std::vector<double> bytes_per_second);

}  // namespace strata
