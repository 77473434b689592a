package dev.edgex.sample.core

/** A value inside a JSON document that knows its path, so that whatever is wrong with it can be named. */
class JsonNode(private val value: Any?, private val path: String) {
    operator fun get(key: String): JsonNode = JsonNode(members()[key], "$path.$key")

    val isNull: Boolean get() = value == null

    fun <T : Any> orNull(read: JsonNode.() -> T): T? = if (isNull) null else read()

    fun text(): String = value as? String ?: wrong("a string")

    fun bool(): Boolean = value as? Boolean ?: wrong("true or false")

    fun long(): Long = value as? Long ?: wrong("a whole number")

    fun int(): Int = long().takeIf { it in Int.MIN_VALUE..Int.MAX_VALUE }?.toInt() ?: wrong("a number of 32 bits")

    fun double(): Double = (value as? Number)?.toDouble() ?: wrong("a number")

    fun isObject(): Boolean = value is Map<*, *>

    fun items(): List<JsonNode> {
        val items = value as? List<*> ?: wrong("an array")
        return items.mapIndexed { at, item -> JsonNode(item, "$path[$at]") }
    }

    /** One of [choices], by the name that [label] gives each. */
    fun <T> choice(choices: Iterable<T>, label: (T) -> String): T {
        val text = text()
        return choices.firstOrNull { label(it) == text } ?: wrong("one of ${choices.joinToString { label(it) }}")
    }

    fun wrong(expected: String): Nothing {
        val found = if (value == null) "nothing" else Json.write(value).take(SHOWN)
        throw JsonException("$path must be $expected, but is $found")
    }

    private fun members(): Map<*, *> = value as? Map<*, *> ?: wrong("an object")

    private companion object {
        const val SHOWN = 60
    }
}
