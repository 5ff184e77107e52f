#include "tutti/data/imdb.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/data/download.h"
#include "tutti/files/archive.h"

namespace tutti::data {
namespace {

constexpr const char* kUrl = "https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz";
constexpr const char* kSha256 = "c40f74a18d3b61f90feba1e17730e0d38e8b97c05fde7008942e91923d1658fe";

constexpr std::array<const char*, 4> kFolders{"train/neg", "train/pos", "test/neg", "test/pos"};

// File names and reviews of each folder.
using Reviews = std::array<std::map<std::string, std::string>, kFolders.size()>;

// The place of "…/train/neg/0_3.txt" in kFolders, or none.
std::optional<size_t> folder_of(const std::filesystem::path& file) {
  if (file.extension() != ".txt") return {};
  const std::string folder = (file.parent_path().parent_path().filename() / file.parent_path().filename()).string();
  const auto found = std::ranges::find(kFolders, folder);
  if (found == kFolders.end()) return {};
  return static_cast<size_t>(found - kFolders.begin());
}

Reviews read_folder(const std::filesystem::path& root) {
  Reviews reviews;
  for (size_t i = 0; i < kFolders.size(); ++i) {
    const auto folder = root / kFolders[i];
    if (!std::filesystem::is_directory(folder)) continue;  // missing reviews are counted later
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().extension() != ".txt") continue;
      std::ifstream file(entry.path(), std::ios::binary);
      if (!file) throw Error(ErrorCode::unavailable, str("load_imdb: cannot open '", entry.path().string(), "'"));
      reviews[i][entry.path().filename().string()] = std::string(std::istreambuf_iterator<char>(file), {});
    }
  }
  return reviews;
}

Reviews read_from_archive(const std::filesystem::path& archive) {
  Reviews reviews;
  files::read_archive(
      archive, [](const std::string& path) { return folder_of(path).has_value(); },
      [&](const std::string& path, std::string text) {
        reviews[*folder_of(path)][std::filesystem::path(path).filename().string()] = std::move(text);
      });
  return reviews;
}

Reviews read(const std::filesystem::path& source) {
  for (const auto& folder : {source, source / "aclImdb"})
    if (std::filesystem::is_directory(folder / "train")) return read_folder(folder);
  if (std::filesystem::is_regular_file(source)) return read_from_archive(source);
  throw Error(ErrorCode::not_found,
              str("load_imdb: '", source.string(),
                  "' is neither the folder aclImdb nor an archive of it; the Large Movie Review Dataset is published "
                  "at ai.stanford.edu/~amaas/data/sentiment as aclImdb_v1.tar.gz"));
}

Dataset<std::tuple<Strings, Tensor>> labelled(std::map<std::string, std::string>& negative,
                                              std::map<std::string, std::string>& positive) {
  std::vector<std::string> texts;
  for (auto* reviews : {&negative, &positive})
    for (auto& [name, text] : *reviews) texts.push_back(std::move(text));
  const Tensor labels = at::empty({static_cast<int64_t>(texts.size())}, at::kLong);
  labels.narrow(0, 0, static_cast<int64_t>(negative.size())).fill_(0);
  labels.narrow(0, static_cast<int64_t>(negative.size()), static_cast<int64_t>(positive.size())).fill_(1);
  return from_tensor_slices(Strings(std::move(texts)), labels);
}

}  // namespace

Imdb load_imdb(const std::filesystem::path& source) {
  if (source.empty()) return load_imdb(download(kUrl, kSha256, download_folder()));
  Reviews reviews = read(source);
  for (size_t i = 0; i < kFolders.size(); ++i)
    if (reviews[i].empty())
      throw Error(ErrorCode::not_found,
                  str("load_imdb: '", source.string(), "' has no reviews in ", kFolders[i], " (files named *.txt)"));
  return {.train = labelled(reviews[0], reviews[1]), .test = labelled(reviews[2], reviews[3])};
}

}  // namespace tutti::data
