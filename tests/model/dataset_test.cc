#include "model/dataset.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "kernels/ops.h"
#include "model/permutation.h"
#include "model/row_packer.h"
#include "model/safetensors_writer.h"
#include "tests/support/fixture_t0.h"
#include "tests/support/temporary_directory.h"

namespace strata {
namespace {

std::string Line(const std::vector<int32_t>& tokens,
                 const std::vector<int32_t>& labels) {
  return absl::StrCat("{\"input_ids\": [", absl::StrJoin(tokens, ","),
                      "], \"labels\": [", absl::StrJoin(labels, ","), "]}\n");
}

// Sequence s of the fixture, with labels from `first_label` to `last_label`.
std::string SequenceLine(int sequence, int64_t length, int64_t first_label,
                         int64_t last_label) {
  const std::vector<int32_t> tokens = FixtureSequence(sequence, length, 67);
  std::vector<int32_t> labels(tokens.size(), kIgnoredLabel);
  for (int64_t i = first_label; i <= last_label; ++i) labels[i] = tokens[i];
  return Line(tokens, labels);
}
std::string SequenceLine(int sequence, int64_t length) {
  return SequenceLine(sequence, length, 0, length - 1);
}

class DatasetTest : public testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<Dataset>> Open(const std::string& lines) {
    const std::vector<std::string> paths = {directory_.Write("train.jsonl", lines)};
    return Dataset::Open(paths, options_);
  }
  void ExpectRefused(const std::string& lines,
                     std::initializer_list<const char*> named) {
    const auto dataset = Open(lines);
    ASSERT_FALSE(dataset.ok()) << lines;
    for (const char* piece : named) {
      EXPECT_TRUE(absl::StrContains(dataset.status().message(), piece))
          << piece << ": " << dataset.status();
    }
  }

  TemporaryDirectory directory_;
  DatasetOptions options_ = {.vocab = 67, .max_position = 64, .shuffle = false};
};

TEST_F(DatasetTest, TargetsAreTheNextTokensLabels) {
  const auto dataset = Open(SequenceLine(0, 16, 13, 15) + SequenceLine(1, 16));
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->row_count(), 2);
  EXPECT_EQ((*dataset)->row_length(), 16);
  EXPECT_EQ((*dataset)->counters().trained_tokens, 18);
  Batch batch(1, 16);
  ASSERT_TRUE((*dataset)->Fill(0, 0, batch).ok());
  EXPECT_EQ(batch.trained_tokens, 3);
  const std::vector<int32_t> tokens = FixtureSequence(0, 16, 67);
  EXPECT_EQ(batch.tokens, tokens);
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(batch.targets[i], i >= 12 && i < 15 ? tokens[i + 1] : kIgnoredLabel);
    EXPECT_EQ(batch.positions[i], i);
    EXPECT_EQ(batch.documents[i], 0);
  }
  ASSERT_TRUE((*dataset)->Fill(0, 1, batch).ok());
  EXPECT_EQ(batch.trained_tokens, 15);
}

TEST_F(DatasetTest, PackedDocumentsAreSeparateAndTheirLastTokensHaveNoTarget) {
  options_.packing = true;
  options_.max_seq_length = 16;
  const auto dataset =
      Open(SequenceLine(20, 5) + SequenceLine(21, 9) + SequenceLine(22, 2) +
           SequenceLine(23, 8) + SequenceLine(24, 8));
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  ASSERT_EQ((*dataset)->row_count(), 2);
  EXPECT_EQ((*dataset)->counters().padding_tokens, 0);
  Batch batch(1, 16);
  ASSERT_TRUE((*dataset)->Fill(0, 0, batch).ok());
  EXPECT_EQ(batch.trained_tokens, 13);
  EXPECT_EQ(batch.documents,
            (std::vector<int32_t>{0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2}));
  EXPECT_EQ(batch.positions,
            (std::vector<int32_t>{0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 1}));
  for (int last : {4, 13, 15}) EXPECT_EQ(batch.targets[last], kIgnoredLabel);
  EXPECT_EQ(batch.targets[5], FixtureSequence(21, 9, 67)[1]);

  Batch both(2, 16);
  ASSERT_TRUE((*dataset)->Fill(0, 0, both).ok());
  EXPECT_EQ(both.trained_tokens, 27);
  EXPECT_TRUE(
      std::equal(batch.targets.begin(), batch.targets.end(), both.targets.begin()));
}

TEST_F(DatasetTest, DocumentLengthsOfALineEqualThePackedLines) {
  options_.packing = true;
  options_.max_seq_length = 16;
  const auto packed =
      Open(SequenceLine(20, 5) + SequenceLine(21, 9) + SequenceLine(22, 2));
  ASSERT_TRUE(packed.ok());
  Batch expected(1, 16);
  ASSERT_TRUE((*packed)->Fill(0, 0, expected).ok());
  options_.packing.reset();
  const auto dataset =
      Open(absl::StrCat("{\"input_ids\": [", absl::StrJoin(expected.tokens, ","),
                        "], \"document_lengths\": [5, 9, 2]}"));
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  Batch batch(1, 16);
  ASSERT_TRUE((*dataset)->Fill(0, 0, batch).ok());
  EXPECT_EQ(batch.targets, expected.targets);
  EXPECT_EQ(batch.documents, expected.documents);
  EXPECT_EQ(batch.positions, expected.positions);
  EXPECT_EQ(batch.trained_tokens, 13);
}

TEST_F(DatasetTest, RowsBeyondTheLastAndTheTailOfRowsArePadding) {
  const auto dataset = Open(SequenceLine(0, 3) + SequenceLine(1, 5));
  ASSERT_TRUE(dataset.ok());
  Batch batch(2, 6);
  ASSERT_TRUE((*dataset)->Fill(0, 1, batch).ok());
  EXPECT_EQ(batch.used_tokens, 5);
  EXPECT_EQ(batch.trained_tokens, 4);
  for (size_t i = 5; i < 12; ++i) {
    EXPECT_EQ(batch.documents[i], -1);
    EXPECT_EQ(batch.targets[i], kIgnoredLabel);
    EXPECT_EQ(batch.tokens[i], 0);
  }
  EXPECT_EQ((*dataset)->counters().padding_tokens, 2);
}

TEST_F(DatasetTest, SamplesWithoutATrainedTokenKeepTheirPlace) {
  const auto dataset =
      Open(SequenceLine(0, 16, 1, 0) + SequenceLine(1, 16) + SequenceLine(2, 1));
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->row_count(), 3);
  EXPECT_EQ((*dataset)->counters().untrained, 2);
  EXPECT_EQ((*dataset)->counters().trained_tokens, 15);
  Batch batch(1, 16);
  ASSERT_TRUE((*dataset)->Fill(0, 0, batch).ok());
  EXPECT_EQ(batch.trained_tokens, 0);
  EXPECT_EQ(batch.used_tokens, 16);
}

TEST_F(DatasetTest, NothingToTrainOnIsRefused) {
  ExpectRefused("", {"train.jsonl", "no samples"});
  ExpectRefused("\n  \n\t\r\n", {"train.jsonl", "no samples"});
  ExpectRefused(SequenceLine(0, 16, 1, 0), {"train.jsonl", "no trainable tokens"});
  options_.max_seq_length = 16;
  ExpectRefused(SequenceLine(0, 40, 32, 39),
                {"no trainable tokens", "--max_seq_length 16"});
}

TEST_F(DatasetTest, SamplesThatTruncationLeavesWithoutTargetsAreDroppedAndCounted) {
  options_.max_seq_length = 16;
  const auto dataset = Open(SequenceLine(0, 40, 32, 39) + SequenceLine(1, 40, 10, 20) +
                            SequenceLine(2, 16) + "{\"input_ids\": []}\n");
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  const DatasetCounters& counters = (*dataset)->counters();
  EXPECT_EQ(counters.read, 4);
  EXPECT_EQ(counters.used, 2);
  EXPECT_EQ(counters.dropped, 2);
  EXPECT_EQ(counters.truncated, 1);
  EXPECT_EQ(counters.trained_tokens, 6 + 15);
  EXPECT_EQ((*dataset)->row_length(), 16);
  Batch batch(1, 16);
  ASSERT_TRUE((*dataset)->Fill(0, 0, batch).ok());
  EXPECT_EQ(batch.trained_tokens, 6);
  EXPECT_TRUE(
      absl::StrContains((*dataset)->Summary(), "4 samples read, 2 used, 2 dropped"));
}

TEST_F(DatasetTest, TruncationCutsTheDocumentsToo) {
  options_.max_seq_length = 6;
  const auto dataset = Open(
      "{\"input_ids\": [1,2,3,4,5,6,7,8], \"document_lengths\": [3, 4, 1]}\n"
      "{\"input_ids\": [1,2,3,4,5,6,7,8], \"document_lengths\": [6, 2]}");
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  Batch batch(2, 6);
  ASSERT_TRUE((*dataset)->Fill(0, 0, batch).ok());
  EXPECT_EQ(batch.documents,
            (std::vector<int32_t>{0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(batch.trained_tokens, 4 + 5);
}

TEST_F(DatasetTest, TooLongForTheModelIsRefusedUnlessItMayBeCut) {
  ExpectRefused(SequenceLine(0, 16) + "\n" + SequenceLine(1, 65),
                {"train.jsonl:3", "65 tokens", "64", "--max_seq_length"});
  options_.max_seq_length = 65;
  ExpectRefused(SequenceLine(0, 16), {"--max_seq_length is 65", "64"});
  options_.max_seq_length = 64;
  const auto dataset = Open(SequenceLine(1, 65));
  ASSERT_TRUE(dataset.ok());
  EXPECT_EQ((*dataset)->counters().truncated, 1);
}

TEST_F(DatasetTest, MalformedLinesAreRefusedByFileAndLine) {
  const struct {
    const char* line;
    const char* named;
  } cases[] = {
      {"{\"input_ids\": [1, 2", "',' or ']' is expected"},
      {"{\"labels\": [1, 2]}", "input_ids is missing"},
      {"{\"input_ids\": \"1 2\"}", "input_ids is no list"},
      {"{\"input_ids\": [1, 2.5]}", "input_ids[1] is 2.5"},
      {"{\"input_ids\": [1, -1]}", "input_ids[1] is -1"},
      {"{\"input_ids\": [1, 67]}",
       "input_ids[1] is 67 but the model's vocab_size is 67"},
      {"{\"input_ids\": [1, 9999999999]}", "input_ids[1] is 9999999999"},
      {"{\"input_ids\": [1, 2], \"labels\": [1]}", "labels has 1 values"},
      {"{\"input_ids\": [1, 2], \"labels\": [1, -99]}", "labels[1] is -99"},
      {"{\"input_ids\": [1, 2], \"labels\": [1, 67]}", "labels[1] is 67"},
      {"{\"input_ids\": [1, 2], \"document_lengths\": [1, 2]}", "add up to 3"},
      {"{\"input_ids\": [1, 2], \"document_lengths\": [0, 2]}",
       "document_lengths[0] is 0"},
      {"{\"input_ids\": [1, 2], \"attention_mask\": [1, 0]}", "attention_mask"},
      {"{\"input_ids\": [1, 2], \"input_ids\": [3]}", "given twice"},
      {"[1, 2]", "input_ids is missing"},
  };
  for (const auto& test : cases) {
    ExpectRefused(absl::StrCat(SequenceLine(0, 4), "\n", test.line, "\n"),
                  {"train.jsonl:3", test.named});
  }
}

TEST_F(DatasetTest, ByteOrderMarksCarriageReturnsAndAMissingLastNewlineAreRead) {
  const auto dataset = Open(
      "\xEF\xBB\xBF{\"input_ids\": [1, 2]}\r\n{\"input_ids\": [3, 4], "
      "\"attention_mask\": "
      "[1, 1]}");
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->row_count(), 2);
}

TEST_F(DatasetTest, AFileThatChangesWhileItIsOpenIsAnErrorNotACrash) {
  const auto dataset = Open(SequenceLine(0, 16));
  ASSERT_TRUE(dataset.ok());
  directory_.Write("train.jsonl", "{\"input_ids\": [1]}");
  Batch batch(1, 16);
  EXPECT_FALSE((*dataset)->Fill(0, 0, batch).ok());
}

TEST_F(DatasetTest, AnotherKindOfFileIsRefusedWithAHint) {
  const std::vector<std::string> paths = {directory_.Write("train.txt", "hello")};
  const auto dataset = Dataset::Open(paths, options_);
  ASSERT_FALSE(dataset.ok());
  EXPECT_TRUE(absl::StrContains(dataset.status().message(), "prepare_data.py"));
}

TEST_F(DatasetTest, EveryEpochIsAnotherOrderOfAllRowsAndTheSameEachTime) {
  std::string lines;
  for (int i = 0; i < 20; ++i)
    absl::StrAppend(&lines, "{\"input_ids\": [", i, ", 1]}\n");
  options_.shuffle = true;
  const auto dataset = Open(lines);
  ASSERT_TRUE(dataset.ok());
  const auto order = [&dataset](int64_t epoch) {
    std::vector<int32_t> firsts;
    Batch batch(4, 2);
    for (int64_t first = 0; first < 20; first += 4) {
      EXPECT_TRUE((*dataset)->Fill(epoch, first, batch).ok());
      for (int row = 0; row < 4; ++row) firsts.push_back(batch.tokens[2 * row]);
    }
    return firsts;
  };
  std::vector<int32_t> sorted = order(0);
  EXPECT_NE(order(0), order(1));
  EXPECT_EQ(order(1), order(1));
  std::sort(sorted.begin(), sorted.end());
  for (int i = 0; i < 20; ++i) EXPECT_EQ(sorted[i], i);
}

TEST_F(DatasetTest, SyntheticRowsAreAFunctionOfTheSeed) {
  options_.max_seq_length = 16;
  const auto dataset = Dataset::Synthetic(8, options_);
  options_.seed = 43;
  const auto other = Dataset::Synthetic(8, options_);
  Batch batch(1, 16), again(1, 16);
  ASSERT_TRUE(dataset->Fill(0, 3, batch).ok());
  EXPECT_EQ(batch.trained_tokens, 15);
  ASSERT_TRUE(dataset->Fill(0, 3, again).ok());
  EXPECT_EQ(batch.tokens, again.tokens);
  ASSERT_TRUE(other->Fill(0, 3, again).ok());
  EXPECT_NE(batch.tokens, again.tokens);
  EXPECT_LT(*std::max_element(batch.tokens.begin(), batch.tokens.end()), 67);
}

TEST(Permutation, IsABijectionForEverySizeSeedAndEpoch) {
  for (int64_t size : {1, 2, 3, 4, 5, 63, 64, 65, 1000}) {
    for (uint64_t seed : {0, 42}) {
      for (int64_t epoch : {0, 1}) {
        const Permutation order(size, seed, epoch);
        std::set<int64_t> seen;
        for (int64_t i = 0; i < size; ++i) {
          const int64_t row = order(i);
          EXPECT_GE(row, 0);
          EXPECT_LT(row, size);
          seen.insert(row);
        }
        EXPECT_EQ(static_cast<int64_t>(seen.size()), size);
      }
    }
  }
}

TEST(Permutation, LeavesFewRowsInPlace) {
  const Permutation order(1000, 42, 0);
  int kept = 0;
  for (int64_t i = 0; i < 1000; ++i) kept += order(i) == i;
  EXPECT_LT(kept, 10);
}

TEST(RowPacker, NoRowOverflowsAndBestFitFillsThem) {
  const std::vector<int64_t> sizes = {5, 9, 2, 8, 8, 16, 1, 15};
  EXPECT_EQ(PackRows(sizes, 16), (std::vector<int64_t>{0, 0, 0, 1, 1, 2, 3, 3}));
  std::vector<int64_t> many;
  for (int64_t i = 0; i < 2000; ++i) many.push_back(1 + i * 7919 % 100);
  const std::vector<int64_t> rows = PackRows(many, 100);
  std::vector<int64_t> used(*std::max_element(rows.begin(), rows.end()) + 1);
  for (size_t i = 0; i < many.size(); ++i) used[rows[i]] += many[i];
  int64_t sum = 0;
  for (int64_t size : used) {
    EXPECT_LE(size, 100);
    sum += size;
  }
  EXPECT_GT(sum, 95 * static_cast<int64_t>(used.size()));  // under 5 % padding
}

// A file as tools/python/prepare_data.py writes it.
class PreparedDatasetTest : public DatasetTest {
 protected:
  void Write(const std::vector<int32_t>& tokens, const std::vector<int32_t>& labels,
             const std::vector<int64_t>& offsets,
             const std::map<std::string, std::string>& metadata) {
    path_ = directory_.File("train.safetensors");
    const auto count = static_cast<int64_t>(tokens.size());
    const std::vector<StoredTensorSpec> specs = {
        {"input_ids", StoredType::kI32, {count}},
        {"labels", StoredType::kI32, {static_cast<int64_t>(labels.size())}},
        {"document_offsets", StoredType::kI64, {static_cast<int64_t>(offsets.size())}}};
    auto writer = SafetensorsWriter::Create(path_, specs, metadata);
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE((*writer)->Append("input_ids", std::as_bytes(std::span(tokens))).ok());
    ASSERT_TRUE((*writer)->Append("labels", std::as_bytes(std::span(labels))).ok());
    ASSERT_TRUE(
        (*writer)->Append("document_offsets", std::as_bytes(std::span(offsets))).ok());
    ASSERT_TRUE((*writer)->Finish().ok());
  }
  absl::StatusOr<std::unique_ptr<Dataset>> OpenPrepared() {
    const std::vector<std::string> paths = {path_};
    return Dataset::Open(paths, options_);
  }

  // Two rows of 8: documents of 5 and 2 tokens and 1 of padding; one of 8.
  const std::vector<int32_t> tokens_ = {1, 2, 3,  4,  5,  6,  7,  0,
                                        8, 9, 10, 11, 12, 13, 14, 15};
  const std::vector<int32_t> labels_ = {-100, 2, 3,  4,  5,  -100, 7,  -100,
                                        -100, 9, 10, 11, 12, 13,   14, 15};
  const std::map<std::string, std::string> packed_ = {{"packing", "true"},
                                                      {"max_seq_length", "8"}};
  std::string path_;
};

TEST_F(PreparedDatasetTest, PackedRowsStayRows) {
  Write(tokens_, labels_, {0, 5, 7, 8, 16}, packed_);
  const auto dataset = OpenPrepared();
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->row_count(), 2);
  EXPECT_EQ((*dataset)->row_length(), 8);
  Batch batch(2, 8);
  ASSERT_TRUE((*dataset)->Fill(0, 0, batch).ok());
  EXPECT_EQ(batch.documents,
            (std::vector<int32_t>{0, 0, 0, 0, 0, 1, 1, -1, 0, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(batch.trained_tokens, 4 + 1 + 7);
  options_.max_seq_length = 8;
  EXPECT_EQ((*OpenPrepared())->row_count(), 2);
}

// Padding is the same thing whoever filled the rows up.
TEST_F(PreparedDatasetTest, PaddingIsCountedAsInRowsThatArePackedHere) {
  Write(tokens_, labels_, {0, 5, 7, 8, 16}, packed_);
  const auto prepared = OpenPrepared();
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  options_.packing = true;
  options_.max_seq_length = 8;
  const auto packed =
      Open(Line({1, 2, 3, 4, 5}, {-100, 2, 3, 4, 5}) + Line({6, 7}, {-100, 7}) +
           Line({8, 9, 10, 11, 12, 13, 14, 15}, {-100, 9, 10, 11, 12, 13, 14, 15}));
  ASSERT_TRUE(packed.ok()) << packed.status();
  for (const auto* dataset : {prepared->get(), packed->get()}) {
    EXPECT_EQ(dataset->row_length(), 8);
    EXPECT_EQ(dataset->counters().tokens, 15);
    EXPECT_EQ(dataset->counters().padding_tokens, 1);
    EXPECT_NE(dataset->Summary().find(" 6.2 % padding"), std::string::npos)
        << dataset->Summary();
    Batch batch(2, 8);
    ASSERT_TRUE(dataset->Fill(0, 0, batch).ok());
    EXPECT_EQ(batch.used_tokens, 15);
  }
}

TEST_F(PreparedDatasetTest, RowsThatAreAllPaddedKeepTheirLength) {
  auto labels = labels_;
  labels[15] = -100;
  Write(tokens_, labels, {0, 5, 7, 8, 15, 16}, packed_);
  const auto dataset = OpenPrepared();
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->row_length(), 8);
  EXPECT_EQ((*dataset)->counters().padding_tokens, 2);
}

// It holds its place in the order, as a line without a trained token does.
TEST_F(PreparedDatasetTest, ARowOfOneUntrainedDocumentIsNotPadding) {
  auto labels = labels_;
  std::fill(labels.begin() + 8, labels.end(), -100);
  Write(tokens_, labels, {0, 5, 7, 8, 16}, packed_);
  const auto dataset = OpenPrepared();
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->row_count(), 2);
  EXPECT_EQ((*dataset)->counters().tokens, 7 + 8);
  EXPECT_EQ((*dataset)->counters().untrained, 1);
}

TEST_F(PreparedDatasetTest, AnotherLengthPacksTheDocumentsAnew) {
  Write(tokens_, labels_, {0, 5, 7, 8, 16}, packed_);
  options_.max_seq_length = 16;
  const auto dataset = OpenPrepared();
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->row_count(), 1);
  EXPECT_EQ((*dataset)->row_length(), 15);
  EXPECT_EQ((*dataset)->counters().untrained, 1);  // the padding
  EXPECT_EQ((*dataset)->counters().trained_tokens, 12);
}

TEST_F(PreparedDatasetTest, WithoutPackingADocumentIsARow) {
  Write(tokens_, labels_, {0, 5, 7, 8, 16}, {});
  const auto dataset = OpenPrepared();
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->row_count(), 4);
  Batch batch(1, 8);
  ASSERT_TRUE((*dataset)->Fill(0, 1, batch).ok());
  EXPECT_EQ(batch.tokens, (std::vector<int32_t>{6, 7, 0, 0, 0, 0, 0, 0}));
}

TEST_F(PreparedDatasetTest, FilesThatContradictThemselvesAreRefused) {
  const auto expect_refused = [this](const char* named) {
    const auto dataset = OpenPrepared();
    ASSERT_FALSE(dataset.ok()) << named;
    EXPECT_TRUE(absl::StrContains(dataset.status().message(), named))
        << dataset.status();
    EXPECT_TRUE(absl::StrContains(dataset.status().message(), path_));
  };
  Write(tokens_, {1}, {0, 16}, {});
  expect_refused("'labels' has 1 values");
  for (const std::vector<int64_t>& offsets :
       {std::vector<int64_t>{}, {0}, {1, 16}, {0, 17}, {0, 9, 5, 16}}) {
    Write(tokens_, labels_, offsets, {});
    expect_refused("'document_offsets'");
  }
  Write(tokens_, labels_, {0, 16}, {{"packing", "true"}, {"max_seq_length", "7"}});
  expect_refused("max_seq_length = 7");
  Write({70, 1}, {70, 1}, {0, 2}, {});
  expect_refused("document 0: input_ids[0] is 70");
}

}  // namespace
}  // namespace strata
