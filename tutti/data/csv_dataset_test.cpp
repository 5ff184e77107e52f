#include "tutti/data/csv_dataset.h"

#include <gmock/gmock.h>
#include <zlib.h>

#include "tests/support/collected_warnings.h"
#include "tests/support/dataset_values.h"
#include "tests/support/temporary_folder.h"
#include "tutti/data/csv_parser.h"

namespace tutti::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class Csv : public testing::Test {
 protected:
  std::filesystem::path write(const std::string& name, const std::string& text) { return folder_.write(name, text); }

  std::vector<std::vector<std::string>> fields(const std::string& text, char delimiter = ',', bool quotes = true) {
    CsvParser parser(write("fields.csv", text), delimiter, quotes);
    std::vector<std::vector<std::string>> records;
    for (std::vector<std::string> record; parser.next(record);) records.push_back(record);
    return records;
  }

  template <class T = CsvRow>
  std::string error_of_reading(std::vector<std::filesystem::path> files, const CsvOptions& options = {}) {
    return error_of([&] {
      if constexpr (std::is_same_v<T, CsvRow>) {
        for (const CsvRow& row : csv_dataset(files, options)) EXPECT_FALSE(row.numbers.empty() && row.strings.empty());
      } else {
        EXPECT_GE(csv_dataset<T>(files, options).batch(100).begin()->size(0), 0);
      }
    });
  }

  const TemporaryFolder folder_;
};

using Fields = std::vector<std::vector<std::string>>;

TEST_F(Csv, SplitsRecordsAtDelimitersAndLineEnds) {
  EXPECT_EQ(fields("a,b\nc,d\n"), (Fields{{"a", "b"}, {"c", "d"}}));
  EXPECT_EQ(fields("a,b\r\nc,d"), (Fields{{"a", "b"}, {"c", "d"}}));
  EXPECT_EQ(fields("a\rb"), (Fields{{"a"}, {"b"}}));
  EXPECT_EQ(fields(",\n,,"), (Fields{{"", ""}, {"", "", ""}}));
  EXPECT_EQ(fields("a;b,c", ';'), (Fields{{"a", "b,c"}}));
  EXPECT_EQ(fields(""), Fields{});
  EXPECT_EQ(fields("\n\r\n\na\n\n"), (Fields{{"a"}}));
  EXPECT_EQ(fields("\xEF\xBB\xBF"
                   "a,b"),
            (Fields{{"a", "b"}}));
}

TEST_F(Csv, AQuotedFieldHoldsDelimitersLineEndsAndDoubledQuotes) {
  EXPECT_EQ(fields("\"a,b\",c\n"), (Fields{{"a,b", "c"}}));
  EXPECT_EQ(fields("\"two\r\nlines\",\"\"\n\"\"\n"), (Fields{{"two\r\nlines", ""}, {""}}));
  EXPECT_EQ(fields("\"say \"\"no\"\"\",\"\"\"\""), (Fields{{"say \"no\"", "\""}}));
  EXPECT_EQ(fields("\"a\",b\"c", ',', false), (Fields{{"\"a\"", "b\"c"}}));
}

TEST_F(Csv, FieldsMayBeLongerThanABlockOfTheFile) {
  const std::string longer(200'000, 'x');
  EXPECT_EQ(fields("\"" + longer + "\"\"" + longer + "\"," + longer + "\nb,c"),
            (Fields{{longer + "\"" + longer, longer}, {"b", "c"}}));
}

TEST_F(Csv, NamesTheLineOfUnmatchedQuotes) {
  EXPECT_THAT(error_of([&] { fields("a\n\"b\nc"); }),
              AllOf(StartsWith("data_loss: csv_dataset: '" + (folder_ / "fields.csv").string()),
                    HasSubstr("line 2 has a quoted field without an end")));
  EXPECT_THAT(error_of([&] { fields("\"1\n2\"\n\nx,\"b\"c"); }), HasSubstr("line 4 has more in a field after"));
  EXPECT_THAT(error_of([&] { fields("a\nb\"c"); }), HasSubstr("line 2 has a quote inside"));
  EXPECT_THAT(error_of([&] { fields(std::string((1 << 20) + 1, ',')); }), HasSubstr("more than 1048576 fields"));
}

TEST_F(Csv, RowsAreNumbersAndStringsByName) {
  const auto file = write("people.csv", "name,age,height,id\nada,36,1.5,4000000000\n\"king, b\",,2,5\n");
  const auto rows = csv_dataset({file});
  const CsvRow batch = *rows.batch(4).begin();
  EXPECT_EQ(batch.strings.at("name"), Strings({"ada", "king, b"}, {2}));
  EXPECT_EQ(batch.numbers.at("age").scalar_type(), at::kInt);
  EXPECT_EQ(numbers(batch.numbers.at("age")), (std::vector<double>{36, 0}));
  EXPECT_EQ(batch.numbers.at("height").scalar_type(), at::kFloat);
  EXPECT_EQ(numbers(batch.numbers.at("height")), (std::vector<double>{1.5, 2}));
  EXPECT_EQ(batch.numbers.at("id").scalar_type(), at::kLong);
  EXPECT_EQ(batch.numbers.size() + batch.strings.size(), 4U);
  EXPECT_EQ(rows.begin()->numbers.at("age").dim(), 0);
}

TEST_F(Csv, InfersTheNarrowestTypeOfTheFirstRows) {
  const auto file = write("types.csv",
                          "int32,int64,float32,float64,string,never\n"
                          "1,-2147483649,1e3,1e300,0x1,\n"
                          "+2, 3 ,-.5,2,4,\n"
                          "2147483647,1,1e-60,3,nan,\n");
  const CsvRow row = *csv_dataset({file}).batch(3).begin();
  EXPECT_EQ(row.numbers.at("int32").scalar_type(), at::kInt);
  EXPECT_EQ(row.numbers.at("int64").scalar_type(), at::kLong);
  EXPECT_EQ(row.numbers.at("float32").scalar_type(), at::kFloat);
  EXPECT_EQ(row.numbers.at("float64").scalar_type(), at::kDouble);
  EXPECT_EQ(numbers(row.numbers.at("int64")), (std::vector<double>{-2147483649., 3, 1}));
  EXPECT_EQ(numbers(row.numbers.at("float32")), (std::vector<double>{1000, -.5, 0}));
  EXPECT_EQ(row.strings.at("string"), Strings({"0x1", "4", "nan"}, {3}));
  EXPECT_EQ(row.strings.at("never"), Strings({"", "", ""}, {3}));
}

TEST_F(Csv, WarnsOfNumbersThatLoseTheirZeros) {
  const auto file = write("digits.csv",
                          "zip,zero,text,float\n"
                          "01234,0,007,0.10\n"
                          "99999,-0,x,01.5\n");
  CollectedWarnings warnings;
  const CsvRow row = *csv_dataset({file}).begin();
  EXPECT_THAT(warnings.lines(), ElementsAre(AllOf(HasSubstr("'zip' is inferred to be int32"), HasSubstr("'01234'"),
                                                  HasSubstr("record_defaults"))));
  EXPECT_EQ(row.numbers.at("zip").item<int>(), 1234);
  warnings.clear();
  const CsvRow kept = *csv_dataset({file}, {.select_columns = {"zip"}, .record_defaults = {CsvType::string}}).begin();
  EXPECT_EQ(kept.strings.at("zip").item(), "01234");
  EXPECT_EQ(csv_dataset<Strings>({file}, {.select_columns = {"zip"}}).begin()->item(), "01234");
  EXPECT_EQ(csv_dataset<Tensor>({file}, {.select_columns = {"zip"}, .record_defaults = {0}}).begin()->item<int>(),
            1234);
  EXPECT_TRUE(warnings.lines().empty());
}

TEST_F(Csv, WarnsOnceOfZerosThatAreLostBehindTheFirstRows) {
  std::string text = "zip,n\n";
  for (int i = 0; i < 300; ++i) text += i < 200 ? "99999,10\n" : " 01234,10\n";
  CollectedWarnings warnings;
  const auto rows = csv_dataset({write("late.csv", text)});
  EXPECT_TRUE(warnings.lines().empty());
  for (int pass = 0; pass < 2; ++pass) EXPECT_EQ(rows.batch(300).begin()->numbers.at("zip")[299].item<int>(), 1234);
  EXPECT_THAT(warnings.lines(), ElementsAre(AllOf(HasSubstr("'zip' is inferred to be int32"), HasSubstr("01234'"))));
}

TEST_F(Csv, RefusesToRoundIntegersThatNoTypeHolds) {
  const auto file = write("ids.csv", "id,x\n18446744073709551615,18446744073709551615\n1,1.5\n");
  EXPECT_THAT(error_of_reading({file}),
              AllOf(StartsWith("invalid_argument: csv_dataset: column 'id' has integers that int64 does not hold, as "
                               "'18446744073709551615'"),
                    HasSubstr("record_defaults")));
  const CsvRow row = *csv_dataset({file}, {.record_defaults = {CsvType::string, 0.F}}).begin();
  EXPECT_EQ(row.strings.at("id").item(), "18446744073709551615");
  const auto x = csv_dataset<Tensor>({file}, {.select_columns = {"x"}});  // there are fractions: floats it is
  EXPECT_EQ(x.begin()->scalar_type(), at::kFloat);
}

TEST_F(Csv, LooksFurtherForAColumnThatBeginsEmpty) {
  std::string empty = "x,late\n";
  for (int i = 0; i < 150; ++i) empty += "1,\n";
  const auto first = write("empty.csv", empty), second = write("late.csv", "x,late\n2,\n3,0.5\n4,x\n");
  const CsvRow row = *csv_dataset({first, second}).skip(151).begin();
  EXPECT_EQ(row.numbers.at("late").item<float>(), .5F);
  EXPECT_THAT(error_of_reading({first, second}),
              AllOf(HasSubstr(second.string() + "', line 4, column 'late' is 'x', which is no float32"),
                    HasSubstr("num_rows_for_inference")));
  EXPECT_EQ(csv_dataset({first}).begin()->strings.at("late").item(), "");  // no row has a field
  EXPECT_EQ(csv_dataset({first, second}, {.num_rows_for_inference = 153}).begin()->strings.at("late").item(), "");
}

TEST_F(Csv, RefusesToGuessTheTypeOfAColumnThatStaysEmpty) {
  std::string text = "x,y,z,w\n";
  for (int i = 0; i < 300; ++i) text += "1,,,\n";
  const auto file = write("empty.csv", text + "1,2,3,\n");
  const CsvOptions three_hundred{.num_rows_for_inference = 3};
  EXPECT_THAT(error_of_reading({file}, three_hundred),
              AllOf(StartsWith("invalid_argument: csv_dataset: the first 300 rows have no field in the columns "
                               "[y, z, w]"),
                    HasSubstr("record_defaults"), HasSubstr("select_columns")));
  EXPECT_EQ(error_of_reading({file}, {.select_columns = {"x"}, .num_rows_for_inference = 3}), "no error");
  const auto texts = csv_dataset<std::tuple<Tensor, Strings, Strings, Strings>>({file}, three_hundred);
  EXPECT_EQ(std::get<1>(*texts.begin()).item(), "");  // text, as the type says
  EXPECT_EQ(csv_dataset({file}, {.num_rows_for_inference = 4}).begin()->numbers.at("y").scalar_type(), at::kInt);
}

TEST_F(Csv, SaysWhereAFieldDoesNotFitTheInferredType) {
  std::string text = "x\n";
  for (int i = 0; i < 100; ++i) text += "1\n";
  const auto file = write("late.csv", text + "1.5\n");
  EXPECT_THAT(error_of_reading({file}),
              AllOf(StartsWith("invalid_argument: csv_dataset: '" + file.string() + "', line 102, column 'x' is '1.5'"),
                    HasSubstr("no int32"), HasSubstr("num_rows_for_inference")));
  EXPECT_EQ(error_of_reading({file}, {.num_rows_for_inference = 101}), "no error");
}

TEST_F(Csv, DefaultsStandForMissingFieldsOrThereIsAnError) {
  const auto file = write("holes.csv", "a,b,c\n1,,x\n?,2,?\n");
  const CsvRow row =
      *csv_dataset({file}, {.na_value = "?", .record_defaults = {int64_t{7}, 0.5, "none"}}).batch(2).begin();
  EXPECT_EQ(row.numbers.at("a").scalar_type(), at::kLong);
  EXPECT_EQ(numbers(row.numbers.at("a")), (std::vector<double>{1, 7}));
  EXPECT_EQ(numbers(row.numbers.at("b")), (std::vector<double>{.5, 2}));
  EXPECT_EQ(row.strings.at("c"), Strings({"x", "none"}, {2}));
  EXPECT_THAT(error_of_reading({file}, {.record_defaults = {"", CsvType::float32, CsvType::string}}),
              HasSubstr("line 2, column 'b' is missing and has no default"));
  EXPECT_THAT(error_of_reading({file}, {.record_defaults = {CsvType::int32, 0.F, ""}}),
              HasSubstr("line 3, column 'a' is '?', which is no int32"));
  EXPECT_THAT(error_of_reading({file}, {.record_defaults = {1, 2}}), HasSubstr("2 record_defaults for 3 columns"));
}

TEST_F(Csv, TypedRowsHaveTheSelectedColumnsInOrder) {
  const auto file = write("codes.csv", "zip,area,town\n01234,5.5,Ur\n99999,6,Uz\n");
  using Row = std::tuple<Strings, Tensor, Strings>;
  const auto rows = csv_dataset<Row>({file}, {.select_columns = {"town", "area", "zip"}});
  const auto [town, area, zip] = *rows.batch(2).begin();
  EXPECT_EQ(town, Strings({"Ur", "Uz"}, {2}));
  EXPECT_EQ(numbers(area), (std::vector<double>{5.5, 6}));
  EXPECT_EQ(zip, Strings({"01234", "99999"}, {2}));  // text, as the type says, not numbers
  EXPECT_THAT(error_of_reading<Tensor>({file}), HasSubstr("1 parts for 3 columns"));
  EXPECT_THAT(error_of_reading<Tensor>({file}, {.select_columns = {"town"}}), HasSubstr("'town' is string"));
  EXPECT_THAT(error_of_reading({file}, {.select_columns = {"city"}}), HasSubstr("the columns are [zip, area, town]"));
  EXPECT_THAT(error_of_reading({file}, {.select_columns = {"zip", "zip"}}), HasSubstr("'zip' twice"));
}

TEST_F(Csv, ColumnsAreNamedByTheHeaderTheOptionsOrTheirNumbers) {
  const auto file = write("bare.csv", "1,2\n3,4\n");
  EXPECT_EQ(numbers(csv_dataset({file}, {.header = false}).batch(2).begin()->numbers.at("1")),
            (std::vector<double>{2, 4}));
  const auto named = csv_dataset({file}, {.header = false, .column_names = {"x", "y"}});
  EXPECT_EQ(numbers(named.batch(2).begin()->numbers.at("x")), (std::vector<double>{1, 3}));
  const auto renamed = csv_dataset({file}, {.column_names = {"x", "y"}});
  EXPECT_EQ(numbers(renamed.batch(2).begin()->numbers.at("x")), std::vector<double>{3});
  EXPECT_THAT(error_of_reading({write("twins.csv", "a,a\n1,2\n")}), HasSubstr("two columns are named 'a'"));
}

TEST_F(Csv, NamesFileAndLineOfARowOfAnotherWidth) {
  const auto good = write("good.csv", "a,b\n1,2\n");
  const auto file = write("bad.csv", "a,b\n\"1\n1\",2\n\n1,2,3\n");
  EXPECT_THAT(error_of_reading({good, file}, {.record_defaults = {"", ""}}),
              AllOf(StartsWith("data_loss: csv_dataset: '" + file.string()),
                    HasSubstr("line 5, has 3 fields; 2 are required")));
  EXPECT_THAT(error_of_reading({write("short.csv", "a,b\n1\n")}), HasSubstr("line 2, has 1 fields"));
}

TEST_F(Csv, RowsBeforeAWrongOneAreGiven) {
  const auto rows = csv_dataset<Tensor>({write("late.csv", "x\n1\n2\noops\n3\n")}, {.record_defaults = {0}});
  std::vector<int> seen;
  EXPECT_THAT(error_of([&] {
                for (const Tensor& x : rows) seen.push_back(x.item<int>());
              }),
              HasSubstr("line 4"));
  EXPECT_THAT(seen, ElementsAre(1, 2));
}

TEST_F(Csv, LongFilesComeWholeInBatchesOfAnySize) {
  std::string text = "x,y\n";
  for (int i = 0; i < 1000; ++i) text += str(i, ",text", i, "\n");
  const auto rows = csv_dataset<std::tuple<Tensor, Strings>>({write("long.csv", text)});
  for (const int64_t size : {1, 7, 256, 300, 1000}) {
    int64_t expected = 0;
    for (const auto& [x, y] : rows.batch(size))
      for (int64_t i = 0; i < x.size(0); ++i, ++expected) {
        EXPECT_EQ(x[i].item<int64_t>(), expected);
        EXPECT_EQ(y[i], str("text", expected));
      }
    EXPECT_EQ(expected, 1000);
  }
}

TEST_F(Csv, WideFilesAreReadARowAtATime) {
  std::string text;
  for (int i = 0; i < 3 * 100'000; ++i) text += i % 100'000 == 99'999 ? "7\n" : "7,";
  const auto rows = csv_dataset({write("wide.csv", text)}, {.header = false});
  EXPECT_EQ(numbers(rows.batch(3).begin()->numbers.at("99999")), (std::vector<double>{7, 7, 7}));
}

TEST_F(Csv, RefusesFilesThatAreAbsentEmptyOrDiffer) {
  const auto good = write("good.csv", "a,b\n1,2\n");
  EXPECT_THAT(error_of_reading({}), StartsWith("invalid_argument: csv_dataset: no files"));
  EXPECT_THAT(error_of_reading({folder_ / "absent.csv"}), StartsWith("not_found"));
  EXPECT_THAT(error_of_reading({good, folder_ / "absent.csv"}), StartsWith("not_found"));
  EXPECT_THAT(error_of_reading({write("empty.csv", "")}), StartsWith("data_loss"));
  const auto other = write("other.csv", "a,c\n1,2\n");
  EXPECT_THAT(error_of_reading({good, other}),
              AllOf(HasSubstr(other.string()), HasSubstr("has the columns [a, c]"), HasSubstr("[a, b]")));
  EXPECT_THAT(error_of_reading({good}, {.field_delim = '"'}), HasSubstr("field_delim"));
  EXPECT_THAT(error_of_reading({good}, {.num_rows_for_inference = 0}), HasSubstr("at least 1"));
}

TEST_F(Csv, AnEmptyLineIsAMissingFieldOfTheOnlyColumn) {
  const auto file = write("one.csv", "x\n1\n\n3\n");
  EXPECT_EQ(numbers(csv_dataset<Tensor>({file}, {.record_defaults = {int64_t{-7}}})), (Numbers{{1}, {-7}, {3}}));
  const auto two = write("two.csv", "x,y\n1,2\n\n3,4\n");
  EXPECT_EQ(numbers(csv_dataset<Tensor>({two}, {.select_columns = {"x"}})), (Numbers{{1}, {3}}));
}

TEST_F(Csv, ReadsCompressedFiles) {
  const gzFile file = gzopen((folder_ / "rows.csv.gz").c_str(), "wb");
  gzputs(file, "a\n1\n2\n");
  gzclose(file);
  std::ofstream(folder_ / "rows.csv.gz", std::ios::app) << std::string(100'000, '\0');  // as a tape is filled up
  EXPECT_EQ(numbers(csv_dataset<Tensor>({folder_ / "rows.csv.gz"})), (Numbers{{1}, {2}}));
}

TEST_F(Csv, IsShardedByFileAndResumedWhereItWas) {
  const auto a = write("a.csv", "x\n1\n2\n"), b = write("b.csv", "x\n3\n\n4\n");
  const auto rows = csv_dataset<Tensor>({a, b});
  EXPECT_EQ(numbers(Dataset<Tensor>(rows.node()->shard_files(2, 1))), (Numbers{{3}, {0}, {4}}));

  const auto iterator = rows.node()->iterate({});
  graph::Element element;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(iterator->next(element));
  graph::StateWriter writer({});
  iterator->save(writer);
  graph::StateReader reader(writer.finish(), {});
  const auto resumed = rows.node()->iterate({});
  resumed->restore(reader);
  for (const double left : {0, 4}) {
    ASSERT_TRUE(resumed->next(element));
    EXPECT_EQ(numbers(from_element<Tensor>(element)), std::vector<double>{left});
  }
  EXPECT_FALSE(resumed->next(element));
}

}  // namespace
}  // namespace tutti::data
