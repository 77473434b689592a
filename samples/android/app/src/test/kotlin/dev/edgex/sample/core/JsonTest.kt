package dev.edgex.sample.core

import org.junit.Assert.assertEquals
import org.junit.Assert.assertThrows
import org.junit.Assert.assertTrue
import org.junit.Test

class JsonTest {
    @Test
    fun `what is written is read back`() {
        val value = mapOf("a" to listOf(1L, -2.5, null, true), "b\n\"\\" to mapOf("ü" to "\u0001"), "c" to emptyList<Any>())
        assertEquals(value, Json.parse(Json.write(value)))
    }

    @Test
    fun `text that is not JSON is refused`() {
        val wrong = listOf(
            "", "{", "[1,]", "{\"a\":1,}", "{\"a\":1,\"a\":2}", "01", "1.", "tru", "\"\\x\"", "\"\\u12\"", "\"", "[1] 2", "{a:1}",
            "99999999999999999999", "[".repeat(1000),
        )
        for (text in wrong) assertThrows(text, JsonException::class.java) { Json.parse(text) }
    }

    @Test
    fun `numbers without a word in JSON are refused`() {
        assertThrows(JsonException::class.java) { Json.write(listOf(Double.NaN)) }
        assertThrows(JsonException::class.java) { Json.write(Double.POSITIVE_INFINITY) }
    }

    @Test
    fun `a wrong value is named with its path`() {
        val node = JsonNode(Json.parse("""{"a": [{"b": "x"}]}"""), "root")
        val error = assertThrows(JsonException::class.java) { node["a"].items()[0]["b"].int() }
        assertTrue(error.message, error.message!!.startsWith("root.a[0].b must be a whole number"))
    }
}
