// Cells of tables that are numbers in another notation: dates, times, currency and per cent.
#pragma once

#include <array>
#include <string_view>

namespace sonline::text {

// The features of a date have the name of its column and these endings: days since 2000-01-01 (UTC,
// with the time as a fraction), and sin and cos - 1 of the time within the year, the week and the
// day. The last two are 0 at midnight, so that a date is the same as its midnight.
inline constexpr std::array<std::string_view, 7> kDateParts = {
    "", ".year_sin", ".year_cos", ".week_sin", ".week_cos", ".day_sin", ".day_cos"};

std::array<double, kDateParts.size()> date_parts(double days);

// Reads 2024-05-17, perhaps with a time (T or a blank, 12:30, 12:30:59.5) and an offset (Z, +02:00)
// as days since 2000-01-01; false if it is anything else.
bool read_date(std::string_view word, double& days);

// Reads a number with separators, signs of currencies or per cent: "1,234.50 €", "-$5", "12 %".
// Where both separators occur, the last is the decimal one; a single comma before three digits
// separates thousands. False if the rest is not a number. Per cent are not divided by 100.
bool read_amount(std::string_view word, double& value);

}  // namespace sonline::text
