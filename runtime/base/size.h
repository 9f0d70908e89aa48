/// Byte sizes as people type and read them: K, M, G, T and KB, MB, GB, TB are powers of
/// 1000; KiB, MiB, GiB, TiB are powers of 1024.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <string>

namespace strata {

/// "24GiB", "1.5G", "4096" -> bytes. InvalidArgument, naming the text, if it is no size,
/// is negative or does not fit 63 bits.
absl::StatusOr<int64_t> ParseSize(absl::string_view text);

/// 25769803776 -> "24.00 GiB"; under 10 KiB as "8191 B".
std::string FormatSize(int64_t size_bytes);

}  // namespace strata
