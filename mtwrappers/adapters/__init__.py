"""Our vector environments as other libraries take them; each library is imported on use."""
