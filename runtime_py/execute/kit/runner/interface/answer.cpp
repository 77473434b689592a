#include "interface/answer.h"

#include <sys/resource.h>

#include <cmath>
#include <cstdio>

namespace edgex {

namespace {

void append_string(std::string& out, const std::string& value) {
  out += '"';
  for (const char letter : value) {
    const auto code = static_cast<unsigned char>(letter);
    if (letter == '"' || letter == '\\') {
      out += '\\';
      out += letter;
    } else if (code < 0x20) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", code);
      out += escaped;
    } else {
      out += letter;
    }
  }
  out += '"';
}

std::string format_real(double value) {
  if (!std::isfinite(value)) return "null";
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.10g", value);
  return buffer;
}

}  // namespace

Line::Line(const char* event) : text_("{") { text("event", event); }

Line::~Line() {
  text_ += "}\n";
  std::fwrite(text_.data(), 1, text_.size(), stdout);
  std::fflush(stdout);
}

void Line::key(const char* name) {
  if (text_.size() > 1) text_ += ", ";
  append_string(text_, name);
  text_ += ": ";
}

Line& Line::text(const char* name, const std::string& value) {
  key(name);
  append_string(text_, value);
  return *this;
}

Line& Line::real(const char* name, std::optional<double> value) {
  key(name);
  text_ += value ? format_real(*value) : "null";
  return *this;
}

Line& Line::whole(const char* name, std::optional<long long> value) {
  key(name);
  text_ += value ? std::to_string(*value) : "null";
  return *this;
}

Line& Line::truth(const char* name, std::optional<bool> value) {
  key(name);
  text_ += value ? (*value ? "true" : "false") : "null";
  return *this;
}

Line& Line::reals(const char* name, const std::vector<double>& values) {
  key(name);
  text_ += "[";
  for (size_t at = 0; at < values.size(); at++) text_ += (at ? ", " : "") + format_real(values[at]);
  text_ += "]";
  return *this;
}

std::optional<long long> peak_rss_bytes() {
  struct rusage usage {};
  if (getrusage(RUSAGE_SELF, &usage) != 0 || usage.ru_maxrss <= 0) return std::nullopt;
  return usage.ru_maxrss * 1024LL;  // Linux counts it in KiB
}

}  // namespace edgex
