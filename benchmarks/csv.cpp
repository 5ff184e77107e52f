// Reading a CSV file in batches of 256 rows beside reading its bytes into a buffer of 64 KB. The file is in memory (the
// system's cache) for both.
//
//   ./dev bench csv
//
//   ratio   over the time of the plain read, the median of the pairs; p10 and p90 are the band of 80 % of them
//   MB, rows  of the file, per second of ours
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>

#include "paired.h"
#include "tutti/data/csv_dataset.h"

namespace tutti::benchmarks {
namespace {

enum class Fields { numbers, text };

class CsvFile {
 public:
  CsvFile(int64_t rows, Fields fields) : rows_(rows) {
    std::ofstream file(path_);
    std::mt19937 random(1);
    file << "id,a,b,c,d,e,f,g,h,name\n";
    for (int64_t i = 0; i < rows; ++i) {
      file << i;
      for (int k = 0; k < 8; ++k)
        file << ',' << (fields == Fields::numbers ? std::to_string(1e-6 * (random() % 10'000'000)) : "some words here");
      file << ",row of a table\n";
    }
  }
  ~CsvFile() { std::filesystem::remove(path_); }

  const std::filesystem::path& path() const { return path_; }
  double rows() const { return static_cast<double>(rows_); }
  double megabytes() const { return 1e-6 * static_cast<double>(std::filesystem::file_size(path_)); }

 private:
  const std::filesystem::path path_ = std::filesystem::temp_directory_path() / "tutti_benchmark.csv";
  int64_t rows_;
};

void read_plainly(const std::filesystem::path& path) {
  static std::array<char, 64 * 1024> block;
  std::FILE* const file = std::fopen(path.c_str(), "rb");
  std::setvbuf(file, nullptr, _IONBF, 0);
  while (std::fread(block.data(), 1, block.size(), file) > 0) benchmark::DoNotOptimize(block);
  std::fclose(file);
}

void Read(benchmark::State& state, Fields fields) {
  const CsvFile file(200'000, fields);
  const auto dataset = data::csv_dataset({file.path()}).batch(256);
  compare(
      state, 1, [&] { read_plainly(file.path()); },
      [&] {
        for (const data::CsvRow& batch : dataset) benchmark::DoNotOptimize(batch.numbers.size());
      });
  const double seconds = 1e-6 * state.counters["ours_us"];
  state.counters["MB"] = file.megabytes() / seconds;
  state.counters["rows"] = file.rows() / seconds;
}
BENCHMARK_CAPTURE(Read, numbers, Fields::numbers)->Iterations(9)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Read, text, Fields::text)->Iterations(9)->UseManualTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tutti::benchmarks

int main(int argc, char** argv) { tutti::benchmarks::run(argc, argv); }
