"""What can be taken away from a Case. A pass describes removals; it runs nothing and knows no order."""
