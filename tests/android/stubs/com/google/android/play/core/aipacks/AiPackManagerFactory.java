package com.google.android.play.core.aipacks;

public final class AiPackManagerFactory {
    public static AiPackManager getInstance(android.content.Context applicationContext) { throw new android.app.Stub(); }
}
