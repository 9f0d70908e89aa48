#include "model/json_reader.h"

#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>

#include <cmath>
#include <limits>
#include <unordered_map>
#include <utility>

#include "runtime/base/status.h"

namespace strata {
namespace {

constexpr int kDepthMax = 100;

void AppendUtf8(uint32_t code_point, std::string& out) {
  const auto put = [&out](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | (code_point >> 6));
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | (code_point >> 12));
    put(0x80 | ((code_point >> 6) & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | (code_point >> 18));
    put(0x80 | ((code_point >> 12) & 0x3F));
    put(0x80 | ((code_point >> 6) & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

// Recursive descent over the text, which outlives the parser.
class Parser {
 public:
  Parser(absl::string_view text, absl::string_view name) : text_(text), name_(name) {}

  absl::StatusOr<JsonDocument> Parse() {
    if (absl::StartsWith(text_, "\xEF\xBB\xBF")) {
      NotePlain("a byte-order mark");
      position_ = 3;
    }
    STRATA_RETURN_IF_ERROR(SkipSpace());
    if (AtEnd()) return Error("the text is empty");
    STRATA_RETURN_IF_ERROR(ParseValue(document_.root, 0));
    STRATA_RETURN_IF_ERROR(SkipSpace());
    if (!AtEnd()) return Error("text after the end of the value");
    return std::move(document_);
  }

 private:
  bool AtEnd() const { return position_ >= text_.size(); }
  char Peek() const { return AtEnd() ? '\0' : text_[position_]; }
  bool Consume(char expected) {
    if (Peek() != expected || AtEnd()) return false;
    ++position_;
    return true;
  }
  bool ConsumeWord(absl::string_view word) {
    if (!absl::StartsWith(text_.substr(position_), word)) return false;
    position_ += word.size();
    return true;
  }

  absl::Status Error(absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat(name_, ":", line_, ": ", what));
  }

  void NotePlain(absl::string_view what) {
    if (!document_.not_plain)
      document_.not_plain = JsonNote{"", line_, std::string(what)};
  }

  // Ends after the text of a comment that starts here; false if none does.
  absl::StatusOr<bool> SkipComment() {
    const absl::string_view rest = text_.substr(position_);
    if (absl::StartsWith(rest, "/*")) {
      NotePlain("a comment");
      const size_t end = rest.find("*/", 2);
      if (end == absl::string_view::npos) return Error("a comment that never ends");
      for (char c : rest.substr(0, end)) line_ += c == '\n';
      position_ += end + 2;
      return true;
    }
    if (absl::StartsWith(rest, "//") || absl::StartsWith(rest, "#")) {
      NotePlain("a comment");
      position_ += std::min(rest.find('\n'), rest.size());
      return true;
    }
    return false;
  }

  absl::Status SkipSpace() {
    while (!AtEnd()) {
      const char c = Peek();
      if (c == '\n') ++line_;
      if (c == ' ' || c == '\t' || c == '\r' || c == '\n') {
        ++position_;
        continue;
      }
      STRATA_ASSIGN_OR_RETURN(const bool skipped, SkipComment());
      if (!skipped) break;
    }
    return absl::OkStatus();
  }

  absl::Status ParseValue(JsonValue& value, int depth) {
    if (depth > kDepthMax) return Error("nested too deeply");
    value.line = line_;
    const char c = Peek();
    if (c == '{') return ParseObject(value, depth);
    if (c == '[') return ParseArray(value, depth);
    if (c == '"') {
      value.kind = JsonValue::Kind::kString;
      return ParseString(value.text);
    }
    if (ConsumeWord("null")) return absl::OkStatus();
    if (ConsumeWord("true") || ConsumeWord("false")) {
      value.kind = JsonValue::Kind::kBool;
      value.boolean = c == 't';
      return absl::OkStatus();
    }
    return ParseNumber(value);
  }

  absl::Status ParseNumber(JsonValue& value) {
    value.kind = JsonValue::Kind::kNumber;
    for (absl::string_view word : {"NaN", "Infinity", "-Infinity"}) {
      if (!ConsumeWord(word)) continue;
      value.text = std::string(word);
      value.number = std::numeric_limits<double>::quiet_NaN();
      document_.faults.push_back({path_, line_, absl::StrCat(word, " is no number")});
      return absl::OkStatus();
    }
    const size_t start = position_;
    const auto digits = [this] {
      const size_t first = position_;
      while (!AtEnd() && Peek() >= '0' && Peek() <= '9') ++position_;
      return position_ > first;
    };
    Consume('-');
    const bool leading_zero = Peek() == '0';
    const size_t first_digit = position_;
    bool valid = digits() && (!leading_zero || position_ == first_digit + 1);
    if (Consume('.')) valid = digits() && valid;
    if (Peek() == 'e' || Peek() == 'E') {
      ++position_;
      if (Peek() == '+' || Peek() == '-') ++position_;
      valid = digits() && valid;
    }
    value.text = std::string(text_.substr(start, position_ - start));
    if (!valid || !absl::SimpleAtod(value.text, &value.number)) {
      return Error(absl::StrCat("a value is expected, not '", Excerpt(start), "'"));
    }
    if (!std::isfinite(value.number)) {
      document_.faults.push_back(
          {path_, line_, absl::StrCat(value.text, " is too large")});
    }
    return absl::OkStatus();
  }

  absl::string_view Excerpt(size_t start) const {
    const absl::string_view rest = text_.substr(start, 20);
    return rest.substr(0, std::min(rest.find('\n'), rest.size()));
  }

  std::optional<uint32_t> ParseHex4() {
    uint32_t code_unit = 0;
    if (position_ + 4 > text_.size() ||
        !absl::SimpleHexAtoi(text_.substr(position_, 4), &code_unit)) {
      return std::nullopt;
    }
    position_ += 4;
    return code_unit;
  }

  absl::Status ParseUnicodeEscape(std::string& out) {
    std::optional<uint32_t> code = ParseHex4();
    if (code && *code >= 0xD800 && *code < 0xDC00 && ConsumeWord("\\u")) {
      const std::optional<uint32_t> low = ParseHex4();
      if (!low || *low < 0xDC00 || *low > 0xDFFF) return Error("a broken \\u escape");
      code = 0x10000 + ((*code - 0xD800) << 10) + (*low - 0xDC00);
    }
    if (!code || (*code >= 0xD800 && *code <= 0xDFFF))
      return Error("a broken \\u escape");
    AppendUtf8(*code, out);
    return absl::OkStatus();
  }

  absl::Status ParseString(std::string& out) {
    static constexpr absl::string_view kEscapes = "\"\\/bfnrt";
    static constexpr absl::string_view kMeanings = "\"\\/\b\f\n\r\t";
    ++position_;  // the opening quote
    while (!AtEnd()) {
      const char c = text_[position_++];
      if (c == '"') return absl::OkStatus();
      if (static_cast<unsigned char>(c) < 0x20) {
        return Error("a text without its closing quote");
      }
      if (c != '\\') {
        out.push_back(c);
      } else if (Consume('u')) {
        STRATA_RETURN_IF_ERROR(ParseUnicodeEscape(out));
      } else {
        const size_t escape = AtEnd() ? absl::string_view::npos : kEscapes.find(Peek());
        if (escape == absl::string_view::npos)
          return Error("a broken escape in a text");
        out.push_back(kMeanings[escape]);
        ++position_;
      }
    }
    return Error("a text without its closing quote");
  }

  // After an element: true if another one follows, false at the closing bracket.
  absl::StatusOr<bool> Continues(char close) {
    STRATA_RETURN_IF_ERROR(SkipSpace());
    const int comma_line = line_;
    if (Consume(',')) {
      STRATA_RETURN_IF_ERROR(SkipSpace());
      if (!Consume(close)) return true;
      if (!document_.not_plain) {
        document_.not_plain = JsonNote{"", comma_line, "a trailing comma"};
      }
      return false;
    }
    if (Consume(close)) return false;
    return Error(absl::StrCat("',' or '", std::string(1, close), "' is expected",
                              AtEnd() ? " before the end of the text" : ""));
  }

  absl::Status ParseArray(JsonValue& value, int depth) {
    value.kind = JsonValue::Kind::kArray;
    ++position_;
    STRATA_RETURN_IF_ERROR(SkipSpace());
    bool more = !Consume(']');
    while (more) {
      STRATA_RETURN_IF_ERROR(ParseValue(value.items.emplace_back(), depth + 1));
      STRATA_ASSIGN_OR_RETURN(more, Continues(']'));
    }
    return absl::OkStatus();
  }

  absl::Status ParseMember(JsonMember& member, int depth) {
    if (Peek() != '"') return Error("a key in double quotes is expected");
    member.line = line_;
    STRATA_RETURN_IF_ERROR(ParseString(member.name));
    STRATA_RETURN_IF_ERROR(SkipSpace());
    if (!Consume(':'))
      return Error(absl::StrCat("':' is expected after ", member.name));
    STRATA_RETURN_IF_ERROR(SkipSpace());
    const size_t parent_size = path_.size();
    absl::StrAppend(&path_, path_.empty() ? "" : ".", member.name);
    STRATA_RETURN_IF_ERROR(ParseValue(member.value, depth + 1));
    path_.resize(parent_size);
    return absl::OkStatus();
  }

  absl::Status ParseObject(JsonValue& value, int depth) {
    value.kind = JsonValue::Kind::kObject;
    ++position_;
    STRATA_RETURN_IF_ERROR(SkipSpace());
    std::unordered_map<std::string, size_t> index;
    bool more = !Consume('}');
    while (more) {
      JsonMember member;
      STRATA_RETURN_IF_ERROR(ParseMember(member, depth));
      const auto [known, is_new] = index.emplace(member.name, value.members.size());
      if (is_new) {
        value.members.push_back(std::move(member));
      } else {
        NoteDuplicate(value.members[known->second], member);
      }
      STRATA_ASSIGN_OR_RETURN(more, Continues('}'));
    }
    return absl::OkStatus();
  }

  void NoteDuplicate(const JsonMember& first, const JsonMember& second) {
    document_.faults.push_back(
        {absl::StrCat(path_, path_.empty() ? "" : ".", first.name), second.line,
         absl::StrCat("given twice: ", first.value.Describe(), " in line ", first.line,
                      " and ", second.value.Describe(), " in line ", second.line)});
  }

  absl::string_view text_;
  absl::string_view name_;
  size_t position_ = 0;
  int line_ = 1;
  std::string path_;  // of the object or value that is being parsed
  JsonDocument document_;
};

}  // namespace

const JsonValue* JsonValue::Find(absl::string_view name) const {
  for (const JsonMember& member : members) {
    if (member.name == name) return &member.value;
  }
  return nullptr;
}

std::optional<int64_t> JsonValue::AsInteger() const {
  if (kind != Kind::kNumber) return std::nullopt;
  int64_t integer = 0;
  if (absl::SimpleAtoi(text, &integer)) return integer;
  constexpr double kExactMax =
      9007199254740992.0;  // 2^53: above it doubles skip integers
  if (!(std::abs(number) <= kExactMax) || number != std::trunc(number)) {
    return std::nullopt;
  }
  return static_cast<int64_t>(number);
}

std::string JsonValue::Describe() const {
  switch (kind) {
    case Kind::kNull:
      return "null";
    case Kind::kBool:
      return boolean ? "true" : "false";
    case Kind::kNumber:
      return text;
    case Kind::kString:
      return absl::StrCat("\"", text.substr(0, 40), text.size() > 40 ? "..." : "",
                          "\"");
    case Kind::kArray:
      return absl::StrCat("[", items.size(), " values]");
    case Kind::kObject:
      return absl::StrCat("{", members.size(), " keys}");
  }
  return "";
}

absl::StatusOr<JsonDocument> ParseRelaxedJson(absl::string_view text,
                                              absl::string_view name) {
  return Parser(text, name).Parse();
}

absl::StatusOr<JsonValue> ParseJson(absl::string_view text, absl::string_view name) {
  STRATA_ASSIGN_OR_RETURN(JsonDocument document, ParseRelaxedJson(text, name));
  if (!document.faults.empty()) {
    const JsonNote& fault = document.faults.front();
    return absl::InvalidArgumentError(
        absl::StrCat(name, ":", fault.line, ": ", fault.path, ": ", fault.text));
  }
  if (document.not_plain) {
    return absl::InvalidArgumentError(absl::StrCat(name, ":", document.not_plain->line,
                                                   ": ", document.not_plain->text,
                                                   ", which JSON does not have"));
  }
  return std::move(document.root);
}

}  // namespace strata
