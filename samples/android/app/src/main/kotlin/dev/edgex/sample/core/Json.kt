package dev.edgex.sample.core

/** JSON text that is not JSON, or not what was expected; the message names the place. */
class JsonException(message: String) : Exception(message)

/**
 * JSON without Android: objects are [Map], arrays [List], whole numbers [Long], other numbers [Double].
 *
 * `org.json` exists on a device only, and the logic of this app is tested off the device.
 */
object Json {
    fun parse(text: String): Any? = Parser(text).document()

    /** Compact text. Keys keep their order; NaN and infinities are refused, because JSON has no words for them. */
    fun write(value: Any?): String = StringBuilder().also { append(it, value) }.toString()

    private fun append(out: StringBuilder, value: Any?) {
        when (value) {
            null -> out.append("null")
            is Boolean -> out.append(value)
            is Int, is Long -> out.append(value)
            is Float -> append(out, value.toDouble())
            is Double -> {
                if (!value.isFinite()) throw JsonException("JSON cannot hold $value")
                out.append(value)
            }
            is String -> appendText(out, value)
            is Map<*, *> -> {
                out.append('{')
                value.entries.forEachIndexed { at, (key, item) ->
                    if (at > 0) out.append(',')
                    appendText(out, key as String)
                    out.append(':')
                    append(out, item)
                }
                out.append('}')
            }
            is Iterable<*> -> {
                out.append('[')
                value.forEachIndexed { at, item ->
                    if (at > 0) out.append(',')
                    append(out, item)
                }
                out.append(']')
            }
            else -> throw JsonException("JSON cannot hold ${value::class.java.name}")
        }
    }

    private fun appendText(out: StringBuilder, text: String) {
        out.append('"')
        for (char in text) {
            when {
                char == '"' || char == '\\' -> out.append('\\').append(char)
                char == '\n' -> out.append("\\n")
                char < ' ' -> out.append("\\u%04x".format(char.code))
                else -> out.append(char)
            }
        }
        out.append('"')
    }

    private class Parser(private val text: String) {
        private var at = 0
        private var depth = 0

        fun document(): Any? {
            val value = value()
            skipSpace()
            if (at != text.length) fail("text after the document")
            return value
        }

        private fun value(): Any? {
            skipSpace()
            if (at == text.length) fail("the text ends too early")
            return when (val char = text[at]) {
                '{' -> nested { members() }
                '[' -> nested { items() }
                '"' -> string()
                't' -> word("true", true)
                'f' -> word("false", false)
                'n' -> word("null", null)
                else -> if (char == '-' || char in '0'..'9') number() else fail("unexpected '$char'")
            }
        }

        private fun <T> nested(read: () -> T): T {
            if (++depth > MAX_DEPTH) fail("nested deeper than $MAX_DEPTH")
            at++
            return read().also { depth-- }
        }

        private fun members(): Map<String, Any?> {
            val members = LinkedHashMap<String, Any?>()
            if (taken('}')) return members
            do {
                skipSpace()
                val key = string()
                expect(':')
                if (key in members) fail("the key \"$key\" comes twice")
                members[key] = value()
            } while (taken(','))
            expect('}')
            return members
        }

        private fun items(): List<Any?> {
            val items = ArrayList<Any?>()
            if (taken(']')) return items
            do items.add(value()) while (taken(','))
            expect(']')
            return items
        }

        private fun string(): String {
            if (at == text.length || text[at] != '"') fail("a string must begin here")
            at++
            val out = StringBuilder()
            while (true) {
                if (at == text.length) fail("a string does not end")
                when (val char = text[at++]) {
                    '"' -> return out.toString()
                    '\\' -> out.append(escape())
                    else -> if (char < ' ') fail("a raw control character in a string") else out.append(char)
                }
            }
        }

        private fun escape(): Char {
            if (at == text.length) fail("a string does not end")
            return when (val char = text[at++]) {
                '"', '\\', '/' -> char
                'b' -> '\b'
                'f' -> '\u000c'
                'n' -> '\n'
                'r' -> '\r'
                't' -> '\t'
                'u' -> {
                    val code = text.substring(at, minOf(at + 4, text.length)).toIntOrNull(16)
                    if (code == null || at + 4 > text.length) fail("\\u needs four hexadecimal digits")
                    at += 4
                    code.toChar()
                }
                else -> fail("unknown escape \\$char")
            }
        }

        private fun number(): Any {
            val match = NUMBER.matchAt(text, at) ?: fail("not a number")
            at = match.range.last + 1
            return if (match.value.any { it in ".eE" }) match.value.toDouble() else {
                match.value.toLongOrNull() ?: fail("a whole number beyond 64 bits")
            }
        }

        private fun <T> word(word: String, value: T): T {
            if (!text.startsWith(word, at)) fail("unexpected '${text[at]}'")
            at += word.length
            return value
        }

        private fun taken(char: Char): Boolean {
            skipSpace()
            return (at < text.length && text[at] == char).also { if (it) at++ }
        }

        private fun expect(char: Char) {
            if (!taken(char)) fail("'$char' is missing")
        }

        private fun skipSpace() {
            while (at < text.length && text[at] in " \t\r\n") at++
        }

        private fun fail(what: String): Nothing {
            val line = text.substring(0, minOf(at, text.length)).count { it == '\n' } + 1
            throw JsonException("$what (line $line, character $at)")
        }
    }

    private val NUMBER = Regex("-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][-+]?[0-9]+)?")
    private const val MAX_DEPTH = 64
}
