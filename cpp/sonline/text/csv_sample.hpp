// The first rows of a CSV, from which its delimiter and the types of its columns are detected.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sonline::text {

// The cells of the first rows of a piece of CSV, and their length in bytes. An incomplete last row
// is left out, unless it is the only one.
std::pair<std::vector<std::vector<std::string>>, size_t> split_csv(std::string_view text,
                                                                   char delimiter, size_t most);

// A summary of the cells of a column that are not missing.
struct CsvCells {
  size_t count = 0;
  size_t words = 0;           // cells that are not numbers
  size_t decimal_commas = 0;  // such as 1,5
  std::string word = {};      // the first of them
};

// A summary of each column of a piece of CSV, from the complete rows with this number of cells.
std::vector<CsvCells> describe_csv(std::string_view text, char delimiter, size_t columns,
                                   const std::vector<std::string>& na_values);

}  // namespace sonline::text
