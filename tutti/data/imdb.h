#pragma once

#include <filesystem>
#include <tuple>

#include "tutti/data/dataset.h"

namespace tutti::data {

// Pairs of a review, Strings [], and whether it is positive, int64 [].
struct Imdb {
  Dataset<std::tuple<Strings, Tensor>> train;
  Dataset<std::tuple<Strings, Tensor>> test;
};

// The Large Movie Review Dataset (Maas et al. 2011): the folder aclImdb as it is published, or an archive that holds it
// (.tar.gz, .tar.xz, .zip …). The labelled reviews are read into memory (66 MB): first the negative ones, then the
// positive ones, each in the order of their file names, so shuffle before training. Without a source the archive is
// fetched (84 MB) into download_folder(), once. TF: text_dataset_from_directory.
// Throws: not_found if there is no such folder or archive, or reviews are missing in it; data_loss for a damaged one;
// as download.
Imdb load_imdb(const std::filesystem::path& source = {});

}  // namespace tutti::data
