#pragma once

// The answer: JSON on stdout, an object a line, each sent at once.

#include <optional>
#include <string>
#include <vector>

namespace edgex {

class Line {
 public:
  explicit Line(const char* event);
  ~Line();  // sends it
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

  Line& text(const char* key, const std::string& value);
  Line& real(const char* key, std::optional<double> value);
  Line& whole(const char* key, std::optional<long long> value);
  Line& truth(const char* key, std::optional<bool> value);
  Line& reals(const char* key, const std::vector<double>& values);

 private:
  void key(const char* name);
  std::string text_;
};

std::optional<long long> peak_rss_bytes();

}  // namespace edgex
