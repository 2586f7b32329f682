"""A campaign in which agents draft, publish and pay, and nothing leaves the house unjudged or twice."""
