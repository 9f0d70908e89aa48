/// The CPU's part of the numerics profile.

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/strip.h>
#include <gnu/libc-version.h>

#include <fstream>
#include <string>

#include "kernels/cpu/attention_tiles.h"
#include "kernels/cpu/bf16_matmul.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/onednn.h"

namespace strata {
namespace {

/// Counts changes of our own operations that change bits.
constexpr int kRevision = 1;

std::string Processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!absl::StartsWith(line, "model name")) continue;
    return std::string(
        absl::StripAsciiWhitespace(absl::string_view(line).substr(line.find(':') + 1)));
  }
  return "unknown";
}

}  // namespace

std::vector<NumericsEntry> CpuKernels::Numerics(DType dtype) const {
  const bool multiplies_bf16 = dtype == DType::kBF16 && Bf16Matmul::Supported();
  return {
      // Libraries choose blocks by its caches, too.
      {"cpu.processor", Processor()},
      {"cpu.matmul", absl::StrCat(multiplies_bf16 ? "BF16" : "fp32 tiles", ", oneDNN ",
                                  OneDnnDescription())},
      // The pool cuts a product of transposed rows by threads (bf16_matmul.h).
      {"cpu.threads", absl::StrCat(pool_.threads()), multiplies_bf16},
      {"cpu.attention", absl::StrCat("tiles of ", kQueryRows, " x ", kKeyRows)},
      {"cpu.operations", absl::StrCat("revision ", kRevision)},
      {"cpu.libm", absl::StrCat("glibc ", gnu_get_libc_version())},
  };
}

}  // namespace strata
