#include "model/jsonl_source.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/strip.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <limits>
#include <numeric>
#include <optional>

#include "kernels/ops.h"
#include "model/json_reader.h"
#include "runtime/base/status.h"

namespace strata {
namespace {

constexpr int64_t kLineSizeMaxBytes = int64_t{256} << 20;
constexpr size_t kBlockBytes = size_t{1} << 20;

// The number of bytes read, fewer than asked for only at the end of the file.
absl::StatusOr<size_t> ReadAt(int descriptor, int64_t offset_bytes, char* out,
                              size_t size_bytes) {
  size_t done = 0;
  while (done < size_bytes) {
    const ssize_t count = pread(descriptor, out + done, size_bytes - done,
                                offset_bytes + static_cast<int64_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return IoError(errno, absl::StrCat("read at ", offset_bytes));
    if (count == 0) break;
    done += static_cast<size_t>(count);
  }
  return done;
}

absl::Status ParseNumbers(const JsonValue& list, absl::string_view key, int64_t least,
                          std::vector<int32_t>& out) {
  if (!list.is_array()) {
    return absl::InvalidArgumentError(absl::StrCat(key, " is no list of numbers"));
  }
  out.clear();
  out.reserve(list.items.size());
  for (const JsonValue& item : list.items) {
    const std::optional<int64_t> number = item.AsInteger();
    if (!number || *number < least || *number > std::numeric_limits<int32_t>::max()) {
      return absl::InvalidArgumentError(
          absl::StrCat(key, "[", out.size(), "] is ", item.Describe()));
    }
    out.push_back(static_cast<int32_t>(*number));
  }
  return absl::OkStatus();
}

absl::Status ParseDocuments(const JsonValue& list, Sample& sample) {
  std::vector<int32_t> lengths;
  STRATA_RETURN_IF_ERROR(ParseNumbers(list, "document_lengths", 1, lengths));
  sample.document_ends.resize(lengths.size());
  std::partial_sum(lengths.begin(), lengths.end(), sample.document_ends.begin());
  const int64_t sum = lengths.empty() ? 0 : sample.document_ends.back();
  if (sum != sample.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "document_lengths add up to ", sum, " but input_ids has ", sample.size()));
  }
  return absl::OkStatus();
}

// Padding belongs to the trainer; a masked token would be attended to all the same.
absl::Status RefusePadding(const JsonValue& line) {
  const JsonValue* mask = line.Find("attention_mask");
  if (mask == nullptr) return absl::OkStatus();
  for (const JsonValue& item : mask->items) {
    if (item.AsInteger() != 1) {
      return absl::InvalidArgumentError(
          "attention_mask hides tokens; leave the padding out of input_ids");
    }
  }
  return absl::OkStatus();
}

absl::Status ParseSample(const JsonValue& line, Sample& sample) {
  const JsonValue* tokens = line.Find("input_ids");
  if (tokens == nullptr) return absl::InvalidArgumentError("input_ids is missing");
  STRATA_RETURN_IF_ERROR(ParseNumbers(*tokens, "input_ids", 0, sample.tokens));
  STRATA_RETURN_IF_ERROR(RefusePadding(line));
  if (const JsonValue* labels = line.Find("labels")) {
    STRATA_RETURN_IF_ERROR(
        ParseNumbers(*labels, "labels", kIgnoredLabel, sample.labels));
    if (sample.labels.size() != sample.tokens.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("labels has ", sample.labels.size(),
                       " values but input_ids has ", sample.tokens.size()));
    }
  } else {
    sample.labels = sample.tokens;
  }
  if (const JsonValue* lengths = line.Find("document_lengths")) {
    return ParseDocuments(*lengths, sample);
  }
  sample.document_ends.assign(sample.tokens.empty() ? 0 : 1, sample.size());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<JsonlSource>> JsonlSource::Open(absl::string_view path) {
  const int descriptor = open(std::string(path).c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return IoError(errno, absl::StrCat("open ", path));
  std::unique_ptr<JsonlSource> source(new JsonlSource(path, descriptor));
  STRATA_RETURN_IF_ERROR(Annotate(source->FindLines(), path));
  return source;
}

JsonlSource::~JsonlSource() { close(descriptor_); }

absl::Status JsonlSource::FindLines() {
  std::string block(kBlockBytes, '\0');
  int64_t position = 0;
  int64_t line_begin = 0;
  int64_t number = 1;
  bool blank = true;
  for (;;) {
    STRATA_ASSIGN_OR_RETURN(const size_t count,
                            ReadAt(descriptor_, position, block.data(), block.size()));
    for (size_t i = 0; i < count; ++i) {
      const char c = block[i];
      if (c != '\n') {
        blank = blank && (c == ' ' || c == '\t' || c == '\r');
        continue;
      }
      const int64_t line_end = position + static_cast<int64_t>(i);
      if (!blank) STRATA_RETURN_IF_ERROR(AddLine(line_begin, line_end, number));
      line_begin = line_end + 1;
      blank = true;
      ++number;
    }
    position += static_cast<int64_t>(count);
    if (count == block.size()) continue;
    return blank ? absl::OkStatus() : AddLine(line_begin, position, number);
  }
}

absl::Status JsonlSource::AddLine(int64_t begin, int64_t end, int64_t number) {
  if (end - begin > kLineSizeMaxBytes || number > std::numeric_limits<int32_t>::max()) {
    return absl::InvalidArgumentError(
        absl::StrCat("line ", number, " has ", end - begin, " bytes; at most ",
                     kLineSizeMaxBytes, " are read: use prepare_data.py"));
  }
  lines_.push_back(
      {begin, static_cast<int32_t>(end - begin), static_cast<int32_t>(number)});
  return absl::OkStatus();
}

std::string JsonlSource::Describe(int64_t index) const {
  return absl::StrCat(path_, ":", lines_[static_cast<size_t>(index)].number);
}

absl::Status JsonlSource::Read(int64_t index, Sample& sample) const {
  const Line& line = lines_[static_cast<size_t>(index)];
  std::string text(static_cast<size_t>(line.size_bytes), '\0');
  const absl::StatusOr<size_t> count =
      ReadAt(descriptor_, line.offset_bytes, text.data(), text.size());
  if (!count.ok()) return Annotate(count.status(), Describe(index));
  if (*count < text.size()) {
    return WithMend(absl::DataLossError(absl::StrCat(
                        Describe(index), ": the file was cut short while it was open")),
                    "leave the data alone while they are trained on");
  }
  absl::string_view json = text;
  if (line.offset_bytes == 0) absl::ConsumePrefix(&json, "\xEF\xBB\xBF");
  STRATA_ASSIGN_OR_RETURN(const JsonValue value, ParseJson(json, Describe(index)));
  return Annotate(ParseSample(value, sample), Describe(index));
}

}  // namespace strata
