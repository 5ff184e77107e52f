// Reading a file of records, with both checksums of each, beside reading its bytes into a buffer of 64 KB. The file is
// in memory (the system's cache) for both.
//
//   ./dev bench tfrecord
//
//   ratio        over the time of the plain read, the median of the pairs; p10 and p90 are the band of 80 % of them
//   records, GB  of the file, per second of ours
//
// crc32c alone is there beside a plain sum over the same bytes.
#include <array>
#include <cstdio>
#include <filesystem>
#include <numeric>

#include "paired.h"
#include "tutti/core/crc32c.h"
#include "tutti/data/parse_example.h"
#include "tutti/data/tfrecord.h"

namespace tutti::benchmarks {
namespace {

class RecordFile {
 public:
  RecordFile(int64_t num_records, const std::string& record) : num_records_(num_records) {
    data::TFRecordWriter writer(path_);
    for (int64_t i = 0; i < num_records; ++i) writer.write(record);
    writer.close();
  }
  ~RecordFile() { std::filesystem::remove(path_); }

  const std::filesystem::path& path() const { return path_; }
  int64_t num_records() const { return num_records_; }
  double gigabytes() const { return 1e-9 * static_cast<double>(std::filesystem::file_size(path_)); }

 private:
  const std::filesystem::path path_ = std::filesystem::temp_directory_path() / "tutti_benchmark.tfrecord";
  int64_t num_records_;
};

void read_plainly(const std::filesystem::path& path) {
  static std::array<char, 64 * 1024> block;
  std::FILE* const file = std::fopen(path.c_str(), "rb");
  std::setvbuf(file, nullptr, _IONBF, 0);
  while (std::fread(block.data(), 1, block.size(), file) > 0) benchmark::DoNotOptimize(block);
  std::fclose(file);
}

void report(benchmark::State& state, const RecordFile& file) {
  const double seconds = 1e-6 * state.counters["ours_us"];
  state.counters["records"] = static_cast<double>(file.num_records()) / seconds;
  state.counters["GB"] = file.gigabytes() / seconds;
}

void Read(benchmark::State& state) {
  const auto num_bytes = static_cast<size_t>(state.range(0));
  const RecordFile file(static_cast<int64_t>((64 << 20) / (num_bytes + 16)), std::string(num_bytes, 'x'));
  const auto dataset = data::tfrecord_dataset({file.path()});
  compare(
      state, 1, [&] { read_plainly(file.path()); },
      [&] {
        for (const Strings& record : dataset) benchmark::DoNotOptimize(record.size());
      });
  report(state, file);
}
BENCHMARK(Read)->Arg(100)->Arg(1'000)->Arg(10'000)->Arg(100'000)->Iterations(9)->UseManualTime();

// Examples of 784 floats and a label, in batches of 128.
void ParseExamples(benchmark::State& state) {
  data::FloatList image(784);
  std::iota(image.begin(), image.end(), 0.F);
  const RecordFile file(20'000, data::Example{{{"image", image}, {"label", data::Int64List{3}}}}.serialize());
  const auto batches = data::tfrecord_dataset({file.path()}).batch(128).map([](const Strings& batch) {
    return data::parse_example(batch, data::FixedLenFeature<float>{"image", {784}},
                               data::FixedLenFeature<int64_t>{"label"});
  });
  compare(
      state, 1, [&] { read_plainly(file.path()); },
      [&] {
        for (const auto& [images, labels] : batches) benchmark::DoNotOptimize(labels);
      });
  report(state, file);
}
BENCHMARK(ParseExamples)->Iterations(9)->UseManualTime();

void Crc32c(benchmark::State& state) {
  const std::vector<uint64_t> words(static_cast<size_t>(state.range(0)) / sizeof(uint64_t), 1);
  const int steps = static_cast<int>((64 << 20) / state.range(0));
  compare(
      state, steps, [&] { benchmark::DoNotOptimize(std::accumulate(words.begin(), words.end(), uint64_t{0})); },
      [&] { benchmark::DoNotOptimize(crc32c(words.data(), words.size() * sizeof(uint64_t))); });
  state.counters["GB"] = 1e-3 * static_cast<double>(state.range(0)) / state.counters["ours_us"];
}
BENCHMARK(Crc32c)->Arg(1 << 10)->Arg(1 << 16)->Arg(64 << 20)->Iterations(9)->UseManualTime();

}  // namespace
}  // namespace tutti::benchmarks

int main(int argc, char** argv) { tutti::benchmarks::run(argc, argv); }
