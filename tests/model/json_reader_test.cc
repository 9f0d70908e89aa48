#include "model/json_reader.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <gtest/gtest.h>

namespace strata {
namespace {

TEST(JsonReader, KeepsOrderLinesAndNumbersAsWritten) {
  const auto value =
      ParseJson("{\n \"b\": 5e8,\n \"a\": [1, -2.5, \"x\\u00e9\\n\"]}", "f");
  ASSERT_TRUE(value.ok()) << value.status();
  ASSERT_EQ(value->members.size(), 2u);
  EXPECT_EQ(value->members[0].name, "b");
  EXPECT_EQ(value->members[0].line, 2);
  EXPECT_EQ(value->members[0].value.text, "5e8");
  EXPECT_EQ(value->members[0].value.AsInteger(), 500000000);
  const JsonValue* list = value->Find("a");
  ASSERT_NE(list, nullptr);
  EXPECT_EQ(list->line, 3);
  EXPECT_DOUBLE_EQ(list->items[1].number, -2.5);
  EXPECT_FALSE(list->items[1].AsInteger().has_value());
  EXPECT_EQ(list->items[2].text, "x\xC3\xA9\n");
  EXPECT_EQ(value->Find("c"), nullptr);
}

TEST(JsonReader, ReadsWholeNumbersExactlyUpTo63Bits) {
  EXPECT_EQ(ParseJson("9223372036854775807", "f")->AsInteger(), INT64_MAX);
  EXPECT_EQ(ParseJson("500000000.0", "f")->AsInteger(), 500000000);
  EXPECT_FALSE(ParseJson("1e30", "f")->AsInteger().has_value());
  EXPECT_FALSE(ParseJson("9223372036854775808", "f")->AsInteger().has_value());
}

TEST(JsonReader, JoinsSurrogatePairs) {
  EXPECT_EQ(ParseJson("\"\\ud83d\\ude00\"", "f")->text, "\xF0\x9F\x98\x80");
  EXPECT_FALSE(ParseJson("\"\\ud83d\"", "f").ok());
  EXPECT_FALSE(ParseJson("\"\\ude00\"", "f").ok());
}

TEST(JsonReader, RefusesWhatIsNoJsonAndNamesTheLine) {
  for (const char* text :
       {"",   "{",  "[1,", "[1 2]", "{\"a\" 1}", "{a: 1}",   "01",         "1.",
        "1e", "+1", "tru", "\"a",   "\"\\x\"",   "\"a\nb\"", "[1] 2",      "/* open",
        "[",  "]",  "nul", ".5",    "\"\\u12\"", "-",        "{\"a\":1,,}"}) {
    const auto value = ParseRelaxedJson(absl::StrCat("\n", text), "file.json");
    ASSERT_FALSE(value.ok()) << text;
    EXPECT_TRUE(absl::StartsWith(value.status().message(), "file.json:2: ") ||
                absl::StartsWith(value.status().message(), "file.json:3: "))
        << value.status();
  }
}

TEST(JsonReader, RefusesNestingThatWouldOverflowTheStack) {
  EXPECT_FALSE(ParseJson(std::string(1000000, '['), "f").ok());
}

TEST(JsonReader, RelaxedReadingNotesTheFirstPlaceThatIsNotPlain) {
  const auto document = ParseRelaxedJson(
      "{\n // one\n \"a\": 1, /* two\n lines */\n # three\n \"b\": [1, 2,],\n}\n", "f");
  ASSERT_TRUE(document.ok()) << document.status();
  ASSERT_TRUE(document->not_plain.has_value());
  EXPECT_EQ(document->not_plain->line, 2);
  EXPECT_EQ(document->not_plain->text, "a comment");
  EXPECT_EQ(document->root.Find("b")->items.size(), 2u);
  EXPECT_EQ(document->root.members[1].line, 6);
  EXPECT_EQ(ParseRelaxedJson("{\"a\": 1\n,}", "f")->not_plain->text,
            "a trailing comma");
  EXPECT_EQ(ParseRelaxedJson("\xEF\xBB\xBF{}", "f")->not_plain->line, 1);
  EXPECT_FALSE(
      ParseRelaxedJson("{\"a\": \"// no comment\"}", "f")->not_plain.has_value());
}

TEST(JsonReader, RelaxedReadingNotesEveryDuplicateAndEveryNumberThatIsNone) {
  const auto document = ParseRelaxedJson(
      "{\"z\": {\n\"r\": 2e8,\n\"r\": 5e8},\n\"c\": NaN, \"d\": -Infinity,\n\"z\": 1}",
      "f");
  ASSERT_TRUE(document.ok()) << document.status();
  ASSERT_EQ(document->faults.size(), 4u);
  EXPECT_EQ(document->faults[0].path, "z.r");
  EXPECT_EQ(document->faults[0].text, "given twice: 2e8 in line 2 and 5e8 in line 3");
  EXPECT_EQ(document->faults[1].path, "c");
  EXPECT_EQ(document->faults[1].line, 4);
  EXPECT_EQ(document->faults[2].path, "d");
  EXPECT_EQ(document->faults[3].path, "z");
  EXPECT_TRUE(document->root.Find("z")->is_object());
}

TEST(JsonReader, PlainReadingRefusesAllThat) {
  for (const char* text :
       {"{\"a\":1,\"a\":2}", "[NaN]", "[1,]", "[1] // x", "[1e999]"}) {
    EXPECT_FALSE(ParseJson(text, "f").ok()) << text;
  }
}

}  // namespace
}  // namespace strata
