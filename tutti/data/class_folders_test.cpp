#include "tutti/data/class_folders.h"

#include <ATen/ops/full.h>
#include <gmock/gmock.h>

#include <set>

#include "tests/support/dataset_values.h"
#include "tests/support/encode_image.h"
#include "tests/support/temporary_folder.h"
#include "tutti/data/image_dataset_from_directory.h"
#include "tutti/data/text_dataset_from_directory.h"

namespace tutti::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class Directory : public testing::Test {
 protected:
  // Ten texts of two classes: neg0 … neg4, pos0 … pos4.
  void write_texts() {
    for (int i = 0; i < 5; ++i)
      for (const std::string name : {"neg", "pos"}) folder_.write(str(name, "/", i, ".txt"), str(name, i));
    folder_.write("pos/notes.md", "not a text");
    folder_.write(".hidden/a.txt", "hidden");
    folder_.write("above.txt", "in no class");
  }

  static std::vector<std::string> texts(const Dataset<std::tuple<Strings, Tensor>>& dataset) {
    std::vector<std::string> all;
    for (const auto& [batch, labels] : dataset) all.insert(all.end(), batch.values().begin(), batch.values().end());
    return all;
  }

  // What f prints.
  template <class F>
  static std::string printed(const F& f) {
    testing::internal::CaptureStdout();
    f();
    return testing::internal::GetCapturedStdout();
  }

  std::string error_of_reading(const TextDirectoryOptions& options) {
    return error_of([&] { text_dataset_from_directory(folder_.path(), options); });
  }

  const TemporaryFolder folder_;
};

using TextDirectory = Directory;
using ImageDirectory = Directory;

TEST_F(TextDirectory, GivesTheTextsOfEachFolderWithItsNumber) {
  write_texts();
  const auto dataset =
      text_dataset_from_directory(folder_.path(), {.batch_size = 4, .shuffle = false, .verbose = false});
  EXPECT_THAT(dataset.class_names, ElementsAre("neg", "pos"));
  EXPECT_EQ(dataset.cardinality(), 3);
  EXPECT_THAT(texts(dataset),
              ElementsAre("neg0", "neg1", "neg2", "neg3", "neg4", "pos0", "pos1", "pos2", "pos3", "pos4"));
  const auto [batch, labels] = *dataset.skip(1).begin();
  EXPECT_EQ(labels.scalar_type(), at::kLong);
  EXPECT_EQ(numbers(labels), (std::vector<double>{0, 1, 1, 1}));
}

TEST_F(TextDirectory, LabelsAreNumbersOneHotRowsOrAColumn) {
  write_texts();
  const auto labels = [&](LabelMode mode, std::vector<std::string> names) {
    const TextDirectoryOptions options{
        .label_mode = mode, .class_names = std::move(names), .batch_size = 6, .shuffle = false, .verbose = false};
    return std::get<1>(*text_dataset_from_directory(folder_.path(), options).begin());
  };
  const Tensor one_hot = labels(LabelMode::categorical, {});
  EXPECT_EQ(one_hot.sizes(), at::IntArrayRef({6, 2}));
  EXPECT_EQ(one_hot.scalar_type(), at::kFloat);
  EXPECT_EQ(numbers(one_hot), (std::vector<double>{1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 0, 1}));
  const Tensor column = labels(LabelMode::binary, {"pos", "neg"});  // pos is 0
  EXPECT_EQ(column.sizes(), at::IntArrayRef({6, 1}));
  EXPECT_EQ(numbers(column), (std::vector<double>{0, 0, 0, 0, 0, 1}));
  EXPECT_THAT(error_of_reading({.class_names = {"pos", "neutral"}}),
              AllOf(StartsWith("invalid_argument"), HasSubstr("[pos, neutral]"), HasSubstr("[neg, pos]")));
  folder_.write("third/x.txt", "x");
  EXPECT_THAT(error_of_reading({.label_mode = LabelMode::binary}), HasSubstr("has 3"));
}

TEST_F(TextDirectory, PrintsWhatItFoundAndUses) {
  write_texts();
  EXPECT_EQ(printed([&] { text_dataset_from_directory(folder_.path()); }), "Found 10 files belonging to 2 classes.\n");
  EXPECT_EQ(printed([&] {
              text_dataset_from_directory(folder_.path(),
                                          {.seed = 1, .validation_split = .25, .subset = Subset::training});
            }),
            "Found 10 files belonging to 2 classes.\nUsing 8 files for training.\n");
  EXPECT_EQ(printed([&] {
              text_dataset_from_directory(folder_.path(),
                                          {.seed = 1, .validation_split = .25, .subset = Subset::validation});
            }),
            "Found 10 files belonging to 2 classes.\nUsing 2 files for validation.\n");
  EXPECT_EQ(printed([&] { text_dataset_from_directory(folder_.path(), {.verbose = false}); }), "");
}

TEST_F(TextDirectory, SubsetsAreDisjointAndTogetherAll) {
  write_texts();
  const auto subset = [&](Subset part, bool shuffle) {
    return texts(text_dataset_from_directory(
        folder_.path(), {.shuffle = shuffle, .seed = 7, .validation_split = .3, .subset = part, .verbose = false}));
  };
  for (const bool shuffle : {false, true}) {
    const auto training = subset(Subset::training, shuffle), validation = subset(Subset::validation, shuffle);
    EXPECT_EQ(validation.size(), 3U);
    std::set<std::string> all(training.begin(), training.end());
    all.insert(validation.begin(), validation.end());
    EXPECT_EQ(training.size() + validation.size(), 10U);
    EXPECT_EQ(all.size(), 10U);
  }
  EXPECT_THAT(subset(Subset::validation, false), ElementsAre("pos2", "pos3", "pos4"));
}

TEST_F(TextDirectory, EachPassHasAnotherOrderOfAllFiles) {
  write_texts();
  const auto dataset = text_dataset_from_directory(folder_.path(), {.seed = 3, .verbose = false});
  const auto first = texts(dataset), second = texts(dataset);
  EXPECT_NE(first, second);
  EXPECT_EQ(std::set<std::string>(first.begin(), first.end()), std::set<std::string>(second.begin(), second.end()));
  EXPECT_EQ(texts(text_dataset_from_directory(folder_.path(), {.seed = 3, .verbose = false})), first);
}

TEST_F(TextDirectory, CutsTextsBetweenCodePoints) {
  folder_.write("a/x.txt", "aé€z");  // 1, 2, 3 and 1 bytes
  const auto cut = [&](int64_t max_length) {
    return texts(text_dataset_from_directory(folder_.path(), {.max_length = max_length, .verbose = false})).front();
  };
  EXPECT_EQ(cut(7), "aé€z");
  EXPECT_EQ(cut(6), "aé€");
  EXPECT_EQ(cut(5), "aé");
  EXPECT_EQ(cut(2), "a");
  EXPECT_EQ(cut(0), "");
}

TEST_F(TextDirectory, RefusesFoldersWithoutClassesOrFiles) {
  const TextDirectoryOptions quiet{.verbose = false};
  EXPECT_THAT(error_of([&] { text_dataset_from_directory(folder_ / "absent", quiet); }), StartsWith("not_found"));
  EXPECT_THAT(error_of([&] { text_dataset_from_directory(folder_.path(), quiet); }), HasSubstr("has no folders"));
  folder_.write("a/x.jpg", "");
  EXPECT_THAT(error_of([&] { text_dataset_from_directory(folder_.path(), quiet); }),
              AllOf(StartsWith("not_found: text_dataset_from_directory"), HasSubstr("[.txt]")));
}

TEST_F(TextDirectory, RefusesOptionsThatDoNotFit) {
  write_texts();
  EXPECT_THAT(error_of_reading({.batch_size = 0}), HasSubstr("batch_size 0"));
  EXPECT_THAT(error_of_reading({.max_length = -1}), HasSubstr("max_length -1"));
  EXPECT_THAT(error_of_reading({.seed = 1, .validation_split = 1, .subset = Subset::training}), HasSubstr("split 1"));
  EXPECT_THAT(error_of_reading({.seed = 1, .validation_split = .5}), HasSubstr("go together"));
  EXPECT_THAT(error_of_reading({.subset = Subset::training}), HasSubstr("go together"));
  EXPECT_THAT(error_of_reading({.validation_split = .5, .subset = Subset::training}), HasSubstr("needs a seed"));
  EXPECT_THAT(error_of_reading({.seed = 1, .validation_split = .01, .subset = Subset::validation, .verbose = false}),
              HasSubstr("leaves none of 10 files"));
}

TEST_F(ImageDirectory, GivesImagesOfOneSize) {
  folder_.write("cats/a.png", png(at::full({2, 2, 3}, 7, at::kByte)));
  folder_.write("cats/deeper/b.JPG", jpeg(at::full({8, 8, 1}, 100, at::kByte)));
  folder_.write("dogs/c.jpeg", jpeg(at::full({16, 8, 3}, 200, at::kByte)));
  const auto dataset = image_dataset_from_directory(
      folder_.path(), {.image_size = {4, 6}, .shuffle = false, .num_parallel_calls = 2, .verbose = false});
  EXPECT_THAT(dataset.class_names, ElementsAre("cats", "dogs"));
  const auto [images, labels] = *dataset.begin();
  EXPECT_EQ(images.sizes(), at::IntArrayRef({3, 4, 6, 3}));
  EXPECT_EQ(images.scalar_type(), at::kFloat);
  EXPECT_EQ(numbers(images.mean({1, 2, 3}).round()), (std::vector<double>{7, 100, 200}));
  EXPECT_EQ(numbers(labels), (std::vector<double>{0, 0, 1}));
}

TEST_F(ImageDirectory, HasTheDefaultsOfKeras) {
  folder_.write("one/a.png", png(at::full({2, 2, 3}, 7, at::kByte)));
  EXPECT_EQ(printed([&] {
              const auto [images, labels] = *image_dataset_from_directory(folder_.path()).begin();
              EXPECT_EQ(images.sizes(), at::IntArrayRef({1, 256, 256, 3}));
            }),
            "Found 1 files belonging to 1 classes.\n");
  for (const auto& [mode, channels] : {std::pair(ColorMode::grayscale, 1), std::pair(ColorMode::rgba, 4)}) {
    const auto dataset = image_dataset_from_directory(folder_.path(), {.color_mode = mode, .verbose = false});
    EXPECT_EQ(std::get<0>(*dataset.begin()).size(3), channels);
  }
}

// The file of a cache tells of the functions that the library maps, by their options.
TEST_F(ImageDirectory, ACacheOfOtherOptionsIsRefused) {
  folder_.write("images/one/a.png", png(at::full({2, 2, 3}, 7, at::kByte)));
  const auto cached = [&](std::array<int64_t, 2> size, ColorMode mode) {
    return image_dataset_from_directory(folder_ / "images",
                                        {.color_mode = mode, .image_size = size, .shuffle = false, .verbose = false})
        .cache(folder_ / "cache");
  };
  const auto read = [](const auto& dataset) {
    return error_of([&] {
      for ([[maybe_unused]] const auto& batch : dataset) continue;
    });
  };
  for (int run = 0; run < 2; ++run) EXPECT_EQ(read(cached({4, 6}, ColorMode::rgb)), "no error");
  EXPECT_THAT(read(cached({4, 7}, ColorMode::rgb)), HasSubstr("is of another dataset"));
  EXPECT_THAT(read(cached({4, 6}, ColorMode::rgba)), HasSubstr("is of another dataset"));
}

TEST_F(TextDirectory, ACacheOfOtherOptionsIsRefused) {
  folder_.write("texts/a/x.txt", "text");
  const auto read = [&](std::optional<int64_t> max_length) {
    return error_of([&] {
      texts(
          text_dataset_from_directory(folder_ / "texts", {.max_length = max_length, .shuffle = false, .verbose = false})
              .cache(folder_ / "cache"));
    });
  };
  for (int run = 0; run < 2; ++run) EXPECT_EQ(read(3), "no error");
  EXPECT_THAT(read(4), HasSubstr("is of another dataset"));
  EXPECT_THAT(read({}), HasSubstr("is of another dataset"));
}

TEST_F(ImageDirectory, NamesTheFileThatIsNoImage) {
  const auto path = folder_.write("a/x.png", "hello");
  const auto dataset = image_dataset_from_directory(folder_.path(), {.verbose = false});
  EXPECT_THAT(error_of([&] { *dataset.begin(); }), AllOf(StartsWith("invalid_argument"), HasSubstr(path.string())));
  const auto gif = folder_.write("a/y.gif", "GIF89a");
  EXPECT_THAT(error_of([&] { image_dataset_from_directory(folder_.path(), {.verbose = false}); }),
              AllOf(StartsWith("unimplemented"), HasSubstr(gif.string())));
  EXPECT_THAT(error_of([&] {
                image_dataset_from_directory(folder_.path(), {.image_size = {0, 3}});
              }),
              HasSubstr("image_size [0, 3]"));
}

}  // namespace
}  // namespace tutti::data
