package com.google.android.play.core.aipacks;

public abstract class AiPackLocation {
    public abstract String assetsPath();
}
