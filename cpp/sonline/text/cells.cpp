#include "sonline/text/cells.hpp"

#include <cmath>
#include <cstdint>
#include <string>

#include "sonline/text/number.hpp"

namespace sonline::text {

namespace {

constexpr double kTurn = 6.283185307179586;
constexpr int64_t kFirstDay = 730425;  // 2000-01-01, counted from 0000-03-01

// Days from 2000-01-01 to a day of the Gregorian calendar. Years begin with March, so that the day
// of a leap year is their last.
int64_t day_number(int64_t year, int64_t month, int64_t day) {
  const int64_t years = year - (month <= 2);
  const int64_t months = (month + 9) % 12;
  return 365 * years + years / 4 - years / 100 + years / 400 + (153 * months + 2) / 5 + day - 1 -
         kFirstDay;
}

int64_t days_of_month(int64_t year, int64_t month) {
  return month == 12 ? 31 : day_number(year, month + 1, 1) - day_number(year, month, 1);
}

// Moves p past `count` digits; -1 if there are fewer.
int64_t take_digits(const char*& p, const char* last, int count) {
  int64_t number = 0;
  for (; count > 0; --count, ++p) {
    if (p == last || !is_digit(*p)) return -1;
    number = 10 * number + (*p - '0');
  }
  return number;
}

bool take_byte(const char*& p, const char* last, char byte) {
  if (p == last || *p != byte) return false;
  ++p;
  return true;
}

// Reads 12:30, 12:30:59 or 12:30:59.5 as seconds; false if it is anything else.
bool read_time(const char*& p, const char* last, double& seconds) {
  const int64_t hour = take_digits(p, last, 2);
  if (hour < 0 || hour > 24 || !take_byte(p, last, ':')) return false;
  const int64_t minute = take_digits(p, last, 2);
  if (minute < 0 || minute > 59) return false;
  seconds = static_cast<double>(3600 * hour + 60 * minute);
  if (!take_byte(p, last, ':')) return true;
  const int64_t second = take_digits(p, last, 2);
  if (second < 0 || second > 60) return false;
  seconds += static_cast<double>(second);
  if (!take_byte(p, last, '.')) return true;
  if (p == last || !is_digit(*p)) return false;
  for (double unit = 0.1; p != last && is_digit(*p); ++p, unit /= 10) seconds += unit * (*p - '0');
  return true;
}

// Reads Z, +02:00, +0200 or +02 as seconds to subtract; nothing is 0.
bool read_offset(const char*& p, const char* last, double& seconds) {
  seconds = 0;
  if (p == last || take_byte(p, last, 'Z')) return true;
  const double sign = *p == '-' ? -1 : 1;
  if (*p != '-' && *p != '+') return false;
  ++p;
  const int64_t hours = take_digits(p, last, 2);
  if (hours < 0 || hours > 23) return false;
  take_byte(p, last, ':');
  const int64_t minutes = p == last ? 0 : take_digits(p, last, 2);
  if (minutes < 0 || minutes > 59) return false;
  seconds = sign * static_cast<double>(3600 * hours + 60 * minutes);
  return true;
}

}  // namespace

std::array<double, kDateParts.size()> date_parts(double days) {
  const double day = std::floor(days);
  auto year = 2000 + static_cast<int64_t>(std::floor(day / 365.2425));
  if (day < static_cast<double>(day_number(year, 1, 1))) --year;
  if (day >= static_cast<double>(day_number(year + 1, 1, 1))) ++year;
  const auto start = static_cast<double>(day_number(year, 1, 1));
  const auto length = static_cast<double>(day_number(year + 1, 1, 1)) - start;
  const double week = (day + 5) / 7;  // 2000-01-01 was a Saturday; weeks start with Monday
  std::array<double, kDateParts.size()> parts{days};
  size_t at = 1;
  for (const double part : {(day - start) / length, week - std::floor(week), days - day}) {
    parts[at++] = std::sin(kTurn * part);
    parts[at++] = std::cos(kTurn * part) - 1;
  }
  return parts;
}

bool read_date(std::string_view word, double& days) {
  const char* p = word.data();
  const char* const last = p + word.size();
  const int64_t year = take_digits(p, last, 4);
  if (year < 1 || !take_byte(p, last, '-')) return false;
  const int64_t month = take_digits(p, last, 2);
  if (month < 1 || month > 12 || !take_byte(p, last, '-')) return false;
  const int64_t day = take_digits(p, last, 2);
  if (day < 1 || day > days_of_month(year, month)) return false;
  days = static_cast<double>(day_number(year, month, day));
  if (p == last) return true;
  double seconds, offset;
  if (!take_byte(p, last, 'T') && !take_byte(p, last, ' ')) return false;
  if (!read_time(p, last, seconds) || !read_offset(p, last, offset) || p != last) return false;
  days += (seconds - offset) / 86400;
  return true;
}

bool read_amount(std::string_view word, double& value) {
  // Euro, pound, yen, and two kinds of blanks.
  constexpr std::array<std::string_view, 5> kSigns = {"\u20ac", "\u00a3", "\u00a5", "\u00a0",
                                                      "\u202f"};
  std::string number;
  for (size_t i = 0; i < word.size();) {
    const std::string_view rest = word.substr(i);
    size_t length =
        rest.front() == '$' || rest.front() == '%' || rest.front() == ' ' || rest.front() == '\'';
    for (const std::string_view sign : kSigns) {
      if (rest.starts_with(sign)) length = sign.size();
    }
    if (length == 0) number += word[i];
    i += length == 0 ? 1 : length;
  }
  const size_t point = number.rfind('.'), comma = number.rfind(',');
  const bool points = point != std::string::npos, commas = comma != std::string::npos;
  char decimal = '.';
  if (points && commas) {
    decimal = comma > point ? ',' : '.';
  } else if (commas) {
    decimal = number.find(',') == comma && number.size() - comma != 4 ? ',' : '.';
  } else if (points && number.find('.') != point) {
    decimal = ',';
  }
  std::string plain;
  for (const char c : number) {
    if (c == decimal) {
      plain += '.';
    } else if (c != '.' && c != ',') {
      plain += c;
    }
  }
  return !plain.empty() &&
         read_any_number(plain.data(), plain.data() + plain.size(), value) == Reason::kNone;
}

}  // namespace sonline::text
