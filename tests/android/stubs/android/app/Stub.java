package android.app;

/** What every stub throws: they exist to compile against, never to run. */
public class Stub extends RuntimeException {}
