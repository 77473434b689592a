package dev.edgex.model

import org.json.JSONArray
import org.json.JSONException
import org.json.JSONObject

/** Compact JSON of maps, lists, texts, numbers, booleans and null. Refuses NaN and infinities, for which JSON has no words. */
fun writeJson(value: Map<String, Any?>): String = toJson(value).toString()

private fun toJson(value: Any?): Any = when (value) {
    null -> JSONObject.NULL
    is Map<*, *> -> JSONObject().apply { value.forEach { (key, item) -> put(key as String, toJson(item)) } }
    is Iterable<*> -> JSONArray().apply { value.forEach { put(toJson(it)) } }
    else -> value
}

/** A value inside a JSON document that knows its path, so that whatever is wrong with it can be named. */
class JsonNode private constructor(private val value: Any?, private val path: String) {
    operator fun get(key: String): JsonNode = JsonNode(entries().opt(key), "$path.$key")

    val isNull: Boolean get() = value == null || value == JSONObject.NULL

    fun <T : Any> orNull(read: JsonNode.() -> T): T? = if (isNull) null else read()

    fun text(): String = value as? String ?: wrong("a string")

    fun bool(): Boolean = value as? Boolean ?: wrong("true or false")

    fun long(): Long = (value as? Int)?.toLong() ?: value as? Long ?: wrong("a whole number")

    fun int(): Int = long().takeIf { it in Int.MIN_VALUE..Int.MAX_VALUE }?.toInt() ?: wrong("a number of 32 bits")

    fun double(): Double = (value as? Number)?.toDouble() ?: wrong("a number")

    fun isObject(): Boolean = value is JSONObject

    fun items(): List<JsonNode> {
        val items = value as? JSONArray ?: wrong("an array")
        return List(items.length()) { JsonNode(items.opt(it), "$path[$it]") }
    }

    fun members(): Map<String, JsonNode> = entries().keys().asSequence().map { it.toString() }.associateWith(::get)

    /** One of [choices], by the name that [label] gives each. */
    fun <T> choice(choices: Iterable<T>, label: (T) -> String): T {
        val text = text()
        return choices.firstOrNull { label(it) == text } ?: wrong("one of ${choices.joinToString { label(it) }}")
    }

    fun wrong(expected: String): Nothing {
        val found = if (isNull) "nothing" else value.toString().take(SHOWN)
        throw JSONException("$path must be $expected, but is $found")
    }

    private fun entries(): JSONObject = value as? JSONObject ?: wrong("an object")

    companion object {
        private const val SHOWN = 60

        /** Throws [JSONException] where the text is no JSON object; [name] begins the path of what is in it. */
        fun parse(text: String, name: String): JsonNode = JsonNode(JSONObject(text), name)
    }
}
