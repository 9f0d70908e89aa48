/// report.html as a run leaves it: one file, well-formed, with the numbers of
/// report.json.

#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <sstream>

#include "tests/support/tiertrain_run.h"

namespace strata {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file.good()) << path;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

struct Reports {
  std::string html;
  nlohmann::json json;
};

// Through all three tiers, so that every lane has something to show.
Reports ReportsOfARun() {
  const TiertrainRun run;
  RunRequest request{.rows = Sequences(0, 8)};
  request.deepspeed["gradient_clipping"] = 1.0;
  request.flags = "--num_train_epochs 1 --eval_file " + run.data() +
                  " --placement optimizer=nvme,weights=host --nvme_path " +
                  run.directory().File("swap") + ":64MiB";
  const RunOutcome outcome = run.Run(request);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  return {ReadFile(run.output() + "/report.html"),
          nlohmann::json::parse(ReadFile(run.output() + "/report.json"))};
}

// Every tag is closed in the order of opening, "<" stands nowhere else, and every
// attribute is quoted.
void ExpectWellFormed(const std::string& html) {
  ASSERT_EQ(html.rfind("<!DOCTYPE html>", 0), 0u);
  static const std::regex kTag(
      R"(^<(/?)([a-z][a-z0-9]*)((\s+[a-zA-Z-]+="[^"<]*")*)\s*(/?)>)");
  std::vector<std::string> open;
  for (size_t at = html.find('<', 1); at != std::string::npos;
       at = html.find('<', at)) {
    const std::string text = html.substr(at, html.find('>', at) - at + 1);
    std::smatch tag;
    ASSERT_TRUE(std::regex_match(text, tag, kTag)) << text;
    if (tag[1] == "/") {
      ASSERT_FALSE(open.empty()) << text;
      ASSERT_EQ(open.back(), tag[2]) << "at byte " << at;
      open.pop_back();
    } else if (tag[5] != "/") {
      open.push_back(tag[2]);
    }
    at += text.size();
  }
  EXPECT_TRUE(open.empty());
}

TEST(HtmlReport, IsWellFormedAndNeedsNothingElse) {
  const Reports reports = ReportsOfARun();
  ExpectWellFormed(reports.html);
  // Paths of the run itself stand in its settings.
  const std::string page = reports.html.substr(0, reports.html.find("<details>"));
  for (const char* outside :
       {"http:", "https:", "//", "src=", "href=", "url(", "@import", "{{"}) {
    EXPECT_EQ(page.find(outside), std::string::npos) << outside;
  }
  for (const char* tag : {"<link", "<img", "<iframe", "<object", "<embed"}) {
    EXPECT_EQ(reports.html.find(tag), std::string::npos) << tag;
  }
}

TEST(HtmlReport, ShowsTheNumbersOfReportJson) {
  const Reports reports = ReportsOfARun();
  static const std::regex kNumber(R"re(<data data-of="([^"]+)" value="([^"]+)">)re");
  std::map<std::string, nlohmann::json> shown;
  for (std::sregex_iterator at(reports.html.begin(), reports.html.end(), kNumber), end;
       at != end; ++at) {
    shown[(*at)[1]] = nlohmann::json::parse(std::string((*at)[2]));
  }
  for (const auto& [pointer, value] : shown) {
    EXPECT_EQ(value, reports.json.at(nlohmann::json::json_pointer(pointer))) << pointer;
  }
  for (const char* pointer :
       {"/tokens_per_second", "/final_loss", "/measured/seconds",
        "/plan/forecast_seconds", "/plan/peak_bytes/device",
        "/measured/peak_bytes/host", "/plan/process_peak_bytes/host",
        "/measured/stall_seconds/host-to-device", "/measured/busy_seconds/compute",
        "/evaluations/1/loss"}) {
    EXPECT_EQ(shown.count(pointer), 1u) << pointer;
  }
}

TEST(HtmlReport, CarriesReportJson) {
  const Reports reports = ReportsOfARun();
  const std::string opening = "<script type=\"application/json\" id=\"report\">";
  const size_t begin = reports.html.find(opening) + opening.size();
  const size_t end = reports.html.find("</script>", begin);
  ASSERT_NE(end, std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(reports.html.substr(begin, end - begin)),
            reports.json);
}

TEST(HtmlReport, SaysInWordsWhomTheComputeLaneWaitsFor) {
  const Reports reports = ReportsOfARun();
  static const std::regex kWords(
      "The compute lane (waits [0-9.]+ % of the step, for [a-z0-9. ()%,-]+|waits for "
      "nobody: it computes [0-9.]+ % of the step)\\.");
  EXPECT_TRUE(std::regex_search(reports.html, kWords));
  EXPECT_TRUE(
      std::regex_search(reports.html, std::regex("The busiest lane is [a-z-]+, ")));
}

}  // namespace
}  // namespace strata
