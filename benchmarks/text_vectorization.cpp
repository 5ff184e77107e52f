// Learning a vocabulary from reviews, in batches of 64, and turning them into tf_idf rows of 1200 columns: in batches,
// which take one thread, and all in one call, which takes all cores.
//
//   TUTTI_DATA_DIR=… ./dev bench text_vectorization
//
//   seconds   the median, for all reviews; cpu_seconds is what the process had of the processors in that time
//   ratio     over the plain program's time (std::unordered_map<std::string, int64_t>, one thread), the median of the
//             pairs; p10 and p90 are the band in which 80 % of the pairs lie
//
// The reviews are the 25,000 of IMDB's training part, in TUTTI_DATA_DIR/imdb; without them made-up text stands in, and
// the times say nothing about IMDB.
#include <cctype>
#include <ctime>
#include <iostream>
#include <iterator>
#include <random>
#include <sstream>
#include <unordered_map>

#include "paired.h"
#include "tests/support/real_data.h"
#include "tutti/core/function_ref.h"
#include "tutti/core/strings.h"
#include "tutti/data/imdb.h"
#include "tutti/keras/layers/preprocessing/text_vectorization.h"

namespace tutti::benchmarks {
namespace {

using keras::OutputMode;
using keras::layers::TextVectorization;

// Words of which few are frequent, as in language.
std::vector<std::string> made_up_reviews() {
  std::mt19937_64 engine(1);
  std::uniform_real_distribution<double> exponent(0, 17);
  std::vector<std::string> texts(2'500);
  for (std::string& text : texts)
    for (int word = 0; word < 230; ++word)
      text += "Word" + std::to_string(std::lround(std::exp2(exponent(engine)))) + (word % 10 == 9 ? ". " : " ");
  return texts;
}

Strings real_reviews(const std::filesystem::path& source) {
  return std::get<0>(*data::load_imdb(source).train.batch(25'000).begin());
}

const Strings& reviews() {
  static const Strings result = [] {
    const auto source = imdb_source();
    std::cout << (source ? "the reviews of IMDB\n"
                         : "TUTTI_DATA_DIR names no folder with imdb/: made-up text instead\n");
    return source ? real_reviews(*source) : Strings(made_up_reviews());
  }();
  return result;
}

std::vector<Strings> batches() {
  constexpr int64_t kBatch = 64;
  std::vector<Strings> batches;
  for (int64_t first = 0; first < reviews().size(); first += kBatch)
    batches.push_back(reviews().rows(first, std::min(kBatch, reviews().size() - first)));
  return batches;
}

// What one would write without a thought of speed.
std::vector<std::string> words_of(const std::string& text) {
  std::string standardized;
  for (const char c : text)
    if (!std::ispunct(static_cast<unsigned char>(c))) standardized += static_cast<char>(std::tolower(c));
  std::istringstream stream(standardized);
  return {std::istream_iterator<std::string>(stream), {}};
}

using Ids = std::unordered_map<std::string, int64_t>;

Ids plain_counts() {
  Ids counts;
  for (const Strings& batch : batches())
    for (const std::string& text : batch.values())
      for (const std::string& word : words_of(text)) ++counts[word];
  return counts;
}

float plain_rows(const Ids& ids) {
  float sum = 0;
  for (const Strings& batch : batches()) {
    std::vector<float> rows(static_cast<size_t>(batch.size()) * 1200);
    for (int64_t row = 0; row < batch.size(); ++row)
      for (const std::string& word : words_of(batch[row])) {
        const auto id = ids.find(word);
        ++rows[static_cast<size_t>(row * 1200 + (id == ids.end() ? 0 : id->second))];
      }
    sum += rows[0];
  }
  return sum;
}

// compare(), and what ours takes for all reviews.
void compare_seconds(benchmark::State& state, FunctionRef<void()> raw, FunctionRef<void()> ours) {
  std::vector<double> cpu_seconds;
  compare(state, 1, raw, [&] {
    const std::clock_t begin = std::clock();
    ours();
    cpu_seconds.push_back(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
  });
  state.counters["seconds"] = 1e-6 * state.counters["ours_us"];
  state.counters["cpu_seconds"] = quantile(cpu_seconds, 0.5);
}

TextVectorization layer() { return TextVectorization({.max_tokens = 1200, .output_mode = OutputMode::tf_idf}); }

void Adapt(benchmark::State& state) {
  TextVectorization vectorize = layer();
  compare_seconds(
      state, [] { benchmark::DoNotOptimize(plain_counts()); }, [&] { vectorize.adapt(batches()); });
}
BENCHMARK(Adapt)->Iterations(5)->UseManualTime()->Unit(benchmark::kMillisecond);

void Vectorize(benchmark::State& state, const std::vector<Strings>& parts) {
  TextVectorization vectorize = layer();
  vectorize.adapt(reviews());
  Ids ids;
  for (const std::string& token : vectorize.get_vocabulary()) ids.emplace(token, static_cast<int64_t>(ids.size()));
  compare_seconds(
      state, [&] { benchmark::DoNotOptimize(plain_rows(ids)); },
      [&] {
        for (const Strings& part : parts) benchmark::DoNotOptimize(vectorize(part));
      });
}
void VectorizeBatches(benchmark::State& state) { Vectorize(state, batches()); }
void VectorizeAll(benchmark::State& state) { Vectorize(state, {reviews()}); }
BENCHMARK(VectorizeBatches)->Iterations(5)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK(VectorizeAll)->Iterations(5)->UseManualTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tutti::benchmarks

int main(int argc, char** argv) { tutti::benchmarks::run(argc, argv); }
